# Functions that make targets: a library (shared and static), the versions of its symbols, a C program.

# The soname names the minor version too until 1.0, because 0.4 may change any function of 0.3.
set(TAPEHEAD_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(TAPEHEAD_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()

# tapehead_libraries(name exported objects...): makes the targets `name` (shared) and `name`_static from the same object
# files. Users know them as tapehead::`exported` and tapehead::`exported`_static. WebAssembly and Windows have the static one only.
function(tapehead_libraries name exported)
    add_library(${name}_static STATIC ${ARGN})
    set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C EXPORT_NAME ${exported}_static)
    target_include_directories(${name}_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
    add_library(tapehead::${exported}_static ALIAS ${name}_static)
    if(TAPEHEAD_ARCHITECTURE STREQUAL "wasm32" OR WIN32)
        return()
    endif()
    add_library(${name} SHARED ${ARGN})
    set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${TAPEHEAD_SOVERSION}
        LINKER_LANGUAGE C EXPORT_NAME ${exported})
    # nodelete: a thread may still run the library's code when a program unloads the library.
    # exclude-libs: functions of static libraries, as jansson may be one, are not exported.
    target_link_options(${name} PRIVATE LINKER:-z,nodelete LINKER:--exclude-libs,ALL)
    if(NOT TAPEHEAD_SANITIZE)
        target_link_options(${name} PRIVATE LINKER:--no-undefined)
    endif()
    target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
    add_library(tapehead::${exported} ALIAS ${name})
endfunction()

# tapehead_symbol_versions(target [list...]): gives public functions a symbol version that names the soname. So a process may load libraries
# of two sonames. The functions marked TH_PRIVATE_API in the headers that the files `list` include get a version that names this release.
# So the dynamic linker never loads a models library with the core of another release.
function(tapehead_symbol_versions target)
    set(map "TAPEHEAD_${TAPEHEAD_SOVERSION} {\n    th_*;\n};\n")
    if(ARGN)
        set(headers "")
        foreach(list ${ARGN})
            file(STRINGS ${list} includes REGEX "^#include \"")
            list(TRANSFORM includes REPLACE "^#include \"(.*)\"" "${PROJECT_SOURCE_DIR}/src/\\1")
            list(APPEND headers ${includes})
        endforeach()
        list(REMOVE_DUPLICATES headers)
        tapehead_list(private_api.def headers "TH_PRIVATE_API [^(;]*[ *](th_[a-z0-9_]+)\\(" "\\1")
        file(STRINGS ${TAPEHEAD_LISTS}/private_api.def functions)
        string(APPEND map "TAPEHEAD_PRIVATE_${PROJECT_VERSION} {\n")
        foreach(function ${functions})
            string(APPEND map "    ${function};\n")
        endforeach()
        string(APPEND map "};\n")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
    endif()
    file(CONFIGURE OUTPUT ${TAPEHEAD_LISTS}/${target}.map CONTENT "${map}" @ONLY)
    target_link_options(${target} PRIVATE LINKER:--version-script=${TAPEHEAD_LISTS}/${target}.map)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${TAPEHEAD_LISTS}/${target}.map)
endfunction()

# tapehead_uses_models(result source...): sets `result` to whether one of the sources includes tapehead/models.h or a header
# of src/models. Programs that use the models library do.
function(tapehead_uses_models result)
    set(${result} FALSE PARENT_SCOPE)
    foreach(source ${ARGN})
        file(STRINGS ${source} includes REGEX "^#include [<\"](tapehead/models\\.h|models/)")
        if(includes)
            set(${result} TRUE PARENT_SCOPE)
        endif()
    endforeach()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
endfunction()

# tapehead_program(name source...): makes a C program and links the static libraries that it uses. Makes no target if the program
# uses the models library and TAPEHEAD_MODELS is off.
function(tapehead_program name)
    tapehead_uses_models(models ${ARGN})
    if(models AND NOT TAPEHEAD_MODELS)
        return()
    endif()
    add_executable(${name} ${ARGN})
    target_compile_options(${name} PRIVATE ${TAPEHEAD_WARNING_FLAGS} ${TAPEHEAD_OPTIMIZE_FLAGS})
    if(TAPEHEAD_ARCHITECTURE STREQUAL "wasm32") # for node, with its files. -O1: optimizing each program again takes a minute
        target_link_options(${name} PRIVATE -O1 -sNODERAWFS=1 -sEXIT_RUNTIME=1 -sWASM_ASYNC_COMPILATION=0
            -sALLOW_MEMORY_GROWTH=1 -sINITIAL_MEMORY=67108864 -sMAXIMUM_MEMORY=2147483648)
    endif()
    if(models)
        target_include_directories(${name} SYSTEM PRIVATE ${TAPEHEAD_MODELS_INCLUDES})
        target_link_libraries(${name} PRIVATE tapehead::models_static)
    else()
        target_link_libraries(${name} PRIVATE tapehead::tapehead_static)
    endif()
endfunction()
