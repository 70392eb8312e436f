# Finds the libraries that the models library needs, and their headers. pkg-config is not necessary.

set(TAPEHEAD_MODELS_INCLUDES "")
# A name if the linker finds the library by itself, so that an installation can be moved; otherwise a path.
set(TAPEHEAD_MODELS_LIBRARIES "")

# tapehead_find(library header): looks for one library. tapehead_add(library) adds it to the two lists.
macro(tapehead_find library header)
    find_path(TAPEHEAD_${library}_INCLUDE ${header})
    find_library(TAPEHEAD_${library}_LIBRARY ${library})
    mark_as_advanced(TAPEHEAD_${library}_INCLUDE TAPEHEAD_${library}_LIBRARY)
endmacro()
macro(tapehead_add library)
    get_filename_component(directory ${TAPEHEAD_${library}_LIBRARY} DIRECTORY)
    if(directory IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND TAPEHEAD_MODELS_LIBRARIES ${library})
    else()
        list(APPEND TAPEHEAD_MODELS_LIBRARIES ${TAPEHEAD_${library}_LIBRARY})
    endif()
    list(APPEND TAPEHEAD_MODELS_INCLUDES ${TAPEHEAD_${library}_INCLUDE})
    list(REMOVE_DUPLICATES TAPEHEAD_MODELS_INCLUDES)
    set(TAPEHEAD_MODELS_LIBRARIES ${TAPEHEAD_MODELS_LIBRARIES} PARENT_SCOPE)
    set(TAPEHEAD_MODELS_INCLUDES ${TAPEHEAD_MODELS_INCLUDES} PARENT_SCOPE)
endmacro()

# tapehead_needs(library header package): finds one library. `package` is the Debian package that has it.
function(tapehead_needs library header package)
    tapehead_find(${library} ${header})
    if(NOT TAPEHEAD_${library}_INCLUDE OR NOT TAPEHEAD_${library}_LIBRARY)
        message(FATAL_ERROR "${header} or lib${library} is missing; Debian has them in ${package}. "
            "The core library does not need them: -DTAPEHEAD_MODELS=OFF builds it alone.")
    endif()
    tapehead_add(${library})
endfunction()

# tapehead_may_use(library header definition): uses one library if it is there. Then the sources see the macro `definition`.
set(TAPEHEAD_MODELS_DEFINITIONS "")
function(tapehead_may_use library header definition)
    tapehead_find(${library} ${header})
    if(TAPEHEAD_${library}_INCLUDE AND TAPEHEAD_${library}_LIBRARY)
        tapehead_add(${library})
        set(TAPEHEAD_MODELS_DEFINITIONS ${TAPEHEAD_MODELS_DEFINITIONS} ${definition} PARENT_SCOPE)
    else()
        message(STATUS "Without lib${library}: files that it compressed cannot be read")
    endif()
endfunction()
