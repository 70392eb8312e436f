# The vector kernels: each file in a folder vector/ of src/kernels is compiled once for each element type and instruction set.
# src/kernels/machine/machine.c finds the processor's instruction sets at run time, so one build runs on all processors. The
# option TAPEHEAD_ISAS selects fewer instruction sets, for a faster build.
#
# Some files are compiled fewer times: those of bfloat16/ for float32 only, dpbf16.c and amx.c for one instruction set each,
# elementary_f64.c for float64 only, and scalar.c once.

include(CheckCSourceCompiles)

# The instruction sets of each architecture (cmake/architecture.cmake), and their flags: macros of
# src/kernels/vector/vector.h, and options of the compiler.
set(TAPEHEAD_ISAS_x86_64 baseline avx2 avx512)
set(TAPEHEAD_ISAS_i386 baseline)
set(TAPEHEAD_ISAS_aarch64 neon)
set(TAPEHEAD_ISAS_generic generic)
set(TAPEHEAD_ISAS_wasm32 simd128)

# tapehead_native_isa(result): sets `result` to the instruction set that the library chooses on this machine among all
# (src/kernels/machine/x86_64.c). On x86-64 without /proc/cpuinfo these are all.
function(tapehead_native_isa result)
    set(native ${TAPEHEAD_ISAS_${TAPEHEAD_ARCHITECTURE}})
    if(TAPEHEAD_ARCHITECTURE STREQUAL "x86_64" AND EXISTS /proc/cpuinfo)
        set(native baseline)
        file(STRINGS /proc/cpuinfo flags LIMIT_COUNT 1 REGEX "^flags")
        if("${flags} " MATCHES " avx2 " AND "${flags} " MATCHES " fma " AND "${flags} " MATCHES " f16c ")
            set(native avx2)
            if("${flags} " MATCHES " avx512f " AND "${flags} " MATCHES " avx512vl " AND "${flags} " MATCHES " avx512bw "
                AND "${flags} " MATCHES " avx512dq ")
                set(native avx512)
            endif()
        endif()
    endif()
    set(${result} ${native} PARENT_SCOPE)
endfunction()

# tapehead_built_isas(result): sets `result` to the instruction sets that TAPEHEAD_ISAS selects, in ascending order.
function(tapehead_built_isas result)
    set(known ${TAPEHEAD_ISAS_${TAPEHEAD_ARCHITECTURE}})
    set(wanted ${TAPEHEAD_ISAS})
    if(wanted STREQUAL "all")
        set(wanted ${known})
    elseif(wanted STREQUAL "native" AND CMAKE_CROSSCOMPILING AND NOT TAPEHEAD_ARCHITECTURE STREQUAL "wasm32")
        message(FATAL_ERROR "TAPEHEAD_ISAS is native, but the compiler builds for another machine: set it to all or to a list.")
    elseif(wanted STREQUAL "native")
        tapehead_native_isa(wanted)
    endif()
    set(others ${wanted})
    list(REMOVE_ITEM others ${known})
    if(others OR NOT wanted)
        message(FATAL_ERROR "TAPEHEAD_ISAS is \"${TAPEHEAD_ISAS}\"; it must be all, native or a list of these: ${known}.")
    endif()
    set(built "")
    foreach(isa ${known})
        if(isa IN_LIST wanted)
            list(APPEND built ${isa})
        endif()
    endforeach()
    if(NOT built STREQUAL known)
        message(STATUS "Vector kernels for ${built} only (TAPEHEAD_ISAS=${TAPEHEAD_ISAS}): other processors cannot use this build")
    endif()
    set(${result} ${built} PARENT_SCOPE)
endfunction()

tapehead_built_isas(TAPEHEAD_BUILT_ISAS)

set(TAPEHEAD_ISA_FLAGS_baseline -DTH_VECTOR_BYTES=16 -DTH_VECTOR_REGISTERS=16 -DTH_FUSED=0 -ffp-contract=off)
set(TAPEHEAD_ISA_FLAGS_avx2 -DTH_VECTOR_BYTES=32 -DTH_VECTOR_REGISTERS=16 -DTH_FUSED=1 -mavx2 -mfma -mf16c)
set(TAPEHEAD_ISA_FLAGS_avx512 -DTH_VECTOR_BYTES=64 -DTH_VECTOR_REGISTERS=32 -DTH_FUSED=1 -mavx2 -mfma -mf16c -mavx512f -mavx512bw
    -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(TAPEHEAD_ISA_FLAGS_avx512bf16 ${TAPEHEAD_ISA_FLAGS_avx512} -mavx512bf16)
set(TAPEHEAD_TILE_FLAGS -mamx-tile -mamx-bf16)
set(TAPEHEAD_ISA_FLAGS_amx ${TAPEHEAD_ISA_FLAGS_avx512bf16} ${TAPEHEAD_TILE_FLAGS})
set(TAPEHEAD_ISA_FLAGS_neon -DTH_VECTOR_BYTES=16 -DTH_VECTOR_REGISTERS=32 -DTH_FUSED=1)
set(TAPEHEAD_ISA_FLAGS_generic -DTH_VECTOR_BYTES=16 -DTH_VECTOR_REGISTERS=16 -DTH_FUSED=1)
set(TAPEHEAD_ISA_FLAGS_simd128 ${TAPEHEAD_ISA_FLAGS_baseline})
set(TAPEHEAD_ISA_FLAGS_scalar ${TAPEHEAD_ISA_FLAGS_baseline})

# The kernels with tiles are left out without AVX-512, or if the compiler or its assembler does not have the instructions.
list(JOIN TAPEHEAD_TILE_FLAGS " " CMAKE_REQUIRED_FLAGS)
check_c_source_compiles("
#include <immintrin.h>
int main(void)
{
    _tile_zero(0);
    _tile_dpbf16ps(0, 1, 2);
    _tile_release();
    return 0;
}" TAPEHEAD_TILES)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT avx512 IN_LIST TAPEHEAD_BUILT_ISAS)
    set(TAPEHEAD_TILES OFF)
endif()

# These options precede the flags of an instruction set. So -march=native in CMAKE_C_FLAGS changes no kernel, and no bits.
set(TAPEHEAD_MARCH_x86_64 -march=x86-64)
set(TAPEHEAD_MARCH_aarch64 -march=armv8-a)
set(TAPEHEAD_MARCH_wasm32 -msimd128)

# Compiles these kernels once, as the target tapehead_f<bits>_<isa>.
function(tapehead_kernel_instance bits isa)
    set(name tapehead_f${bits}_${isa})
    add_library(${name} OBJECT ${ARGN})
    # One compilation for several files: reading the compiler's header of intrinsics takes longer than compiling most files.
    # (So names of static functions must be unique in all vector/ folders.)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8 UNITY_BUILD_RELOCATABLE ON)
    # -Wno-psabi: only functions of the same file pass vectors to each other. -fno-lto: tables of pointers lead to the kernels, so that
    # optimization at link time gains nothing.
    tapehead_library_part(${name} ${TAPEHEAD_OPTIMIZE_KERNEL_FLAGS} ${TAPEHEAD_CONTRACT_FLAGS} -Wno-psabi -fno-lto
        ${TAPEHEAD_SANITIZE_KERNEL_FLAGS} -DTH_REAL_BITS=${bits} -DTH_INSTANCE=f${bits}_${isa}
        ${TAPEHEAD_MARCH_${TAPEHEAD_ARCHITECTURE}} ${TAPEHEAD_ISA_FLAGS_${isa}})
endfunction()

# tapehead_vector_kernels(objects source...): sets `objects` to the object files of all instances.
function(tapehead_vector_kernels objects)
    set(kernels ${tapehead_SOURCE_DIR}/src/kernels)
    set(fma ${kernels}/bfloat16/vector/fma.c)
    set(dpbf16 ${kernels}/bfloat16/vector/dpbf16.c)
    set(amx ${kernels}/bfloat16/vector/amx.c)
    set(scalar ${kernels}/elementwise/vector/scalar.c)
    set(elementary_f64 ${kernels}/vector/elementary_f64.c)
    set_source_files_properties(${elementary_f64} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
    # These files interleave independent chains of operations. gcc needs scheduling before register allocation for that.
    set_source_files_properties(${kernels}/elementwise/vector/activation.c ${kernels}/elementwise/vector/unary.c
        PROPERTIES COMPILE_OPTIONS $<$<C_COMPILER_ID:GNU>:-fschedule-insns>)
    # The sums of a tile take 24 of NEON's 32 registers. gcc's first scheduler moves loads up, and then sums are spilled.
    if(TAPEHEAD_ARCHITECTURE STREQUAL "aarch64")
        set_source_files_properties(${kernels}/products/vector/product_tile.c ${fma}
            PROPERTIES COMPILE_OPTIONS $<$<C_COMPILER_ID:GNU>:-fno-schedule-insns>)
    endif()
    list(REMOVE_ITEM ARGN ${fma} ${dpbf16} ${amx} ${scalar} ${elementary_f64})
    foreach(isa ${TAPEHEAD_BUILT_ISAS})
        tapehead_kernel_instance(32 ${isa} ${ARGN} ${fma})
        tapehead_kernel_instance(64 ${isa} ${ARGN} ${elementary_f64})
        list(APPEND instances f32_${isa} f64_${isa})
    endforeach()
    tapehead_kernel_instance(64 scalar ${scalar} ${elementary_f64})
    list(APPEND instances f64_scalar)
    if(avx512 IN_LIST TAPEHEAD_BUILT_ISAS)
        tapehead_kernel_instance(32 avx512bf16 ${dpbf16})
        list(APPEND instances f32_avx512bf16)
    endif()
    if(TAPEHEAD_TILES)
        tapehead_kernel_instance(32 amx ${amx})
        list(APPEND instances f32_amx)
    endif()
    list(TRANSFORM instances REPLACE "(.+)" "$<TARGET_OBJECTS:tapehead_\\1>")
    set(${objects} ${instances} PARENT_SCOPE)
endfunction()
