# How all targets are compiled, and the compiler flags that all parts of the libraries share. Nothing here changes a project that
# contains this one.

# C11, or the later standard that CMAKE_C_STANDARD names, without extensions of the compiler.
if(NOT CMAKE_C_STANDARD OR CMAKE_C_STANDARD MATCHES "^9")
    set(CMAKE_C_STANDARD 11)
endif()
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# CMAKE_UNITY_BUILD has no effect. Static functions with the same purpose have the same name in all files: each operation has a `plan`.
# The vector kernels, which take most of the time, are always compiled together (kernels.cmake).
set(CMAKE_UNITY_BUILD OFF)

# Enumerators name whole numbers here. clang 19 warns where one meets a floating-point number.
set(TAPEHEAD_WARNING_FLAGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wno-unknown-pragmas -Wno-enum-float-conversion)
if(TAPEHEAD_WERROR)
    list(APPEND TAPEHEAD_WARNING_FLAGS -Werror)
endif()

# Fast-math is not used. These flags change no value; with them the compiler vectorizes loops with sqrt and comparisons.
set(TAPEHEAD_COMMON_FLAGS -fno-math-errno -fno-trapping-math)

# For kernels: a multiplication and the addition of its result become a fused multiply-add if the processor has it. In a chain
# of fused multiply-adds gcc would separate some, which it considers faster on some processors (from version 14 on, on all).
# --param prevents this.
set(TAPEHEAD_CONTRACT_FLAGS -ffp-contract=fast $<$<C_COMPILER_ID:GNU>:--param=avoid-fma-max-bits=0>)

# These flags follow CMake's own flags, so that they take precedence. Without a build type, as in a project that sets none, only the
# user's flags take precedence. Under the sanitizers -O1 keeps reports readable, and gcc needs
# -fexpensive-optimizations to fuse multiply-add.
set(TAPEHEAD_OPTIMIZE_FLAGS $<$<CONFIG:Release,RelWithDebInfo>:-O2>)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_C_FLAGS MATCHES "-O")
    set(TAPEHEAD_OPTIMIZE_FLAGS -O2)
endif()
set(TAPEHEAD_OPTIMIZE_KERNEL_FLAGS $<IF:$<CONFIG:Debug>,-O2,-O3>)
if(TAPEHEAD_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -g1)
    set(TAPEHEAD_OPTIMIZE_KERNEL_FLAGS -O2)
    add_link_options(-fsanitize=thread)
elseif(TAPEHEAD_SANITIZE)
    # The group "undefined" has no check of conversions to integers. Kernels select a result after such a conversion.
    set(TAPEHEAD_OPTIMIZE_FLAGS -O1 -fsanitize=float-cast-overflow)
    set(TAPEHEAD_OPTIMIZE_KERNEL_FLAGS -O1 $<$<C_COMPILER_ID:GNU>:-fexpensive-optimizations>)
    # These checks of pointers at each vector load cost minutes of compilation. AddressSanitizer finds the same errors.
    set(TAPEHEAD_SANITIZE_KERNEL_FLAGS -fno-sanitize=alignment,null,object-size,bounds,pointer-overflow)
    # -g1: reports need lines, and no variables.
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
    add_link_options(-fsanitize=address,undefined)
endif()

# libFuzzer follows the branches of all code except the vector kernels. clang takes half an hour to compile them with sanitizers, and the
# preset asan checks them.
if(TAPEHEAD_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
    set(TAPEHEAD_SANITIZE_KERNEL_FLAGS -fno-sanitize=all)
endif()

# Windows: offsets in files have 64 bits, and printf is that of C99. gcc keeps vectors of 32 and 64 bytes on stacks that Windows aligns to 16
# bytes, and moves them with instructions that need alignment (gcc's bug 54412). The assembler takes others instead, which are as fast.
if(MINGW)
    add_compile_definitions(_FILE_OFFSET_BITS=64 __USE_MINGW_ANSI_STDIO=1)
    # (the C library's isfinite and isnan are macros that mention every type)
    list(APPEND TAPEHEAD_WARNING_FLAGS -Wno-float-conversion)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-Wa,-muse-unaligned-vector-move)
    endif()
endif()

# tapehead_library_part(target flag...): sets how all code of the libraries is compiled: position independent; extensions of the C
# library are allowed. Only functions with TH_API or TH_PRIVATE_API are exported. Only Debug builds have assertions: an
# assertion contains the path of its source, and two builds in different folders must be identical.
function(tapehead_library_part target)
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
    if(NOT TAPEHEAD_ARCHITECTURE STREQUAL wasm32)
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()
    target_include_directories(${target} PRIVATE ${tapehead_SOURCE_DIR}/include ${tapehead_SOURCE_DIR}/src
        ${TAPEHEAD_LISTS})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE TAPEHEAD_NO_LOCATIONS $<$<NOT:$<CONFIG:Debug>>:NDEBUG>)
    target_compile_options(${target} PRIVATE ${TAPEHEAD_WARNING_FLAGS} ${TAPEHEAD_COMMON_FLAGS} ${ARGN})
endfunction()
