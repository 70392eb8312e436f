# Sets TAPEHEAD_ARCHITECTURE to the processor architecture of the programs that the compiler makes, x86_64 or aarch64, and to an
# empty string for any other. The compiler knows it better than CMAKE_SYSTEM_PROCESSOR: -m32 changes it.
include(CheckCSourceCompiles)

set(TAPEHEAD_ARCHITECTURE "")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # without linking: a cross compiler may have no C library
foreach(architecture x86_64 aarch64)
    check_c_source_compiles("
#ifndef __${architecture}__
#error another architecture
#endif" TAPEHEAD_FOR_${architecture})
    if(TAPEHEAD_FOR_${architecture})
        set(TAPEHEAD_ARCHITECTURE ${architecture})
    endif()
endforeach()
unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
