# TAPEHEAD_ARCHITECTURE: the architecture that the compiler builds for, or empty if the library does not support it. The compiler's
# macros decide, so that cross compilers and flags such as -m32 count. Pointers must have 64 bits (in WebAssembly 32), and bytes
# the little-endian order. The architecture i386, x86 with 32 bits, is for the two files only (scripts/amalgamate.sh).
#
# A further architecture needs its lines here, its instruction sets in kernels.cmake, and a file src/kernels/machine/NAME.c with
# the tables of src/kernels/machine/isa.h.

include(CheckCSourceCompiles)

set(TAPEHEAD_ARCHITECTURES x86_64 i386 aarch64 generic wasm32)
set(TAPEHEAD_MACROS_x86_64 "defined __x86_64__ && (defined __LP64__ || defined _WIN64)")
set(TAPEHEAD_MACROS_i386 "defined __i386__")
set(TAPEHEAD_MACROS_aarch64 "defined __aarch64__ && (defined __LP64__ || defined _WIN64) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__")
# riscv64 and ppc64le: kernels in plain C, for processors with fused multiply-add
set(TAPEHEAD_MACROS_generic "((defined __riscv && __riscv_xlen == 64 && __riscv_flen == 64) || (defined __powerpc64__ && defined __VSX__)) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__")
set(TAPEHEAD_MACROS_wasm32 "defined __EMSCRIPTEN__ && defined __wasm32__ && !defined __EMSCRIPTEN_PTHREADS__")

# Sources in src/kernels/machine for one architecture.
set(TAPEHEAD_SOURCES_x86_64 x86_64.c amx.c)
set(TAPEHEAD_SOURCES_i386 i386.c)
set(TAPEHEAD_SOURCES_aarch64 aarch64.c)
set(TAPEHEAD_SOURCES_generic generic.c)
set(TAPEHEAD_SOURCES_wasm32 wasm32.c)
# Sources whose functions an architecture defines itself: WebAssembly has one thread and loads no libraries.
set(TAPEHEAD_REPLACED_wasm32 openblas.c processors.c team.c)

set(TAPEHEAD_ARCHITECTURE "")
foreach(name ${TAPEHEAD_ARCHITECTURES})
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # nothing is linked
    check_c_source_compiles("
#if !(${TAPEHEAD_MACROS_${name}})
#error another architecture
#endif
typedef int architecture;" TAPEHEAD_IS_${name})
    unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
    if(TAPEHEAD_IS_${name})
        set(TAPEHEAD_ARCHITECTURE ${name})
        break()
    endif()
endforeach()

# tapehead_remove_other_architectures(list): removes the sources that are not for this architecture.
function(tapehead_remove_other_architectures list)
    set(others ${TAPEHEAD_REPLACED_${TAPEHEAD_ARCHITECTURE}})
    foreach(name ${TAPEHEAD_ARCHITECTURES})
        if(NOT name STREQUAL TAPEHEAD_ARCHITECTURE)
            list(APPEND others ${TAPEHEAD_SOURCES_${name}})
        endif()
    endforeach()
    list(TRANSFORM others PREPEND ${tapehead_SOURCE_DIR}/src/kernels/machine/)
    list(REMOVE_ITEM ${list} ${others})
    set(${list} ${${list}} PARENT_SCOPE)
endfunction()
