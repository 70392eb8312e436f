# Libraries that ours needs besides OpenMP: where their headers are, and what links them. Nothing but the compiler and CMake
# is needed to find them.

set(TAPEHEAD_LIBRARY_INCLUDES "")
set(TAPEHEAD_LIBRARIES "") # by name where the linker finds it by itself, so that what is installed can be moved

# tapehead_needs(library header package)
function(tapehead_needs library header package)
    find_path(TAPEHEAD_${library}_INCLUDE ${header})
    find_library(TAPEHEAD_${library}_LIBRARY ${library})
    mark_as_advanced(TAPEHEAD_${library}_INCLUDE TAPEHEAD_${library}_LIBRARY)
    if(NOT TAPEHEAD_${library}_INCLUDE OR NOT TAPEHEAD_${library}_LIBRARY)
        message(FATAL_ERROR "${header} or lib${library} is missing; Debian has them in ${package}")
    endif()
    get_filename_component(directory ${TAPEHEAD_${library}_LIBRARY} DIRECTORY)
    if(directory IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND TAPEHEAD_LIBRARIES ${library})
    else()
        list(APPEND TAPEHEAD_LIBRARIES ${TAPEHEAD_${library}_LIBRARY})
    endif()
    list(APPEND TAPEHEAD_LIBRARY_INCLUDES ${TAPEHEAD_${library}_INCLUDE})
    list(REMOVE_DUPLICATES TAPEHEAD_LIBRARY_INCLUDES)
    set(TAPEHEAD_LIBRARIES ${TAPEHEAD_LIBRARIES} PARENT_SCOPE)
    set(TAPEHEAD_LIBRARY_INCLUDES ${TAPEHEAD_LIBRARY_INCLUDES} PARENT_SCOPE)
endfunction()

tapehead_needs(jansson jansson.h libjansson-dev)
tapehead_needs(pcre2-8 pcre2.h libpcre2-dev)
