# Threads: POSIX threads, and OpenMP's settings unless TAPEHEAD_OPENMP is OFF. Code that is compiled differently with OpenMP links
# the target tapehead_threads. TAPEHEAD_THREAD_LIBRARIES are the names or paths for programs that use the static library.

add_library(tapehead_threads INTERFACE)
set(TAPEHEAD_THREAD_LIBRARIES "")
if(TAPEHEAD_OPENMP)
    find_package(OpenMP REQUIRED COMPONENTS C)
    target_compile_definitions(tapehead_threads INTERFACE TAPEHEAD_OPENMP)
    target_link_libraries(tapehead_threads INTERFACE OpenMP::OpenMP_C)
    # The linker finds gcc's OpenMP by name with every compiler, and clang's only by path.
    foreach(name ${OpenMP_C_LIB_NAMES})
        if(name MATCHES "^(gomp|pthread)$")
            list(APPEND TAPEHEAD_THREAD_LIBRARIES ${name})
        else()
            list(APPEND TAPEHEAD_THREAD_LIBRARIES ${OpenMP_${name}_LIBRARY})
        endif()
    endforeach()
elseif(NOT TAPEHEAD_ARCHITECTURE STREQUAL "wasm32" AND NOT WIN32) # there the C library has functions for one thread; Windows has threads
    set(TAPEHEAD_THREAD_LIBRARIES pthread)
    target_link_libraries(tapehead_threads INTERFACE pthread)
endif()
