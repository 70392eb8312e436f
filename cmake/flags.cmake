# Compiler flags that all parts of the libraries share. Fast-math is not used. -fno-math-errno and -fno-trapping-math change no
# value; with them the compiler vectorizes loops with sqrt and comparisons.

set(TAPEHEAD_WARNING_FLAGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wno-unknown-pragmas)
if(TAPEHEAD_WERROR)
    list(APPEND TAPEHEAD_WARNING_FLAGS -Werror)
endif()

set(TAPEHEAD_COMMON_FLAGS -fno-math-errno -fno-trapping-math)

# For kernels: a multiplication and the addition of its result become a fused multiply-add if the processor has it. In a chain
# of fused multiply-adds gcc would separate some, which it considers faster on some processors (from version 14 on, on all).
# --param prevents this.
set(TAPEHEAD_CONTRACT_FLAGS -ffp-contract=fast $<$<C_COMPILER_ID:GNU>:--param=avoid-fma-max-bits=0>)

# These flags follow CMake's own flags, so that they take precedence. Under the sanitizers -O1 keeps reports readable, and gcc needs
# -fexpensive-optimizations to fuse multiply-add.
set(TAPEHEAD_OPTIMIZE_FLAGS $<$<CONFIG:Release,RelWithDebInfo>:-O2>)
set(TAPEHEAD_OPTIMIZE_KERNEL_FLAGS $<IF:$<CONFIG:Debug>,-O2,-O3>)
if(TAPEHEAD_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -g)
    add_link_options(-fsanitize=thread)
elseif(TAPEHEAD_SANITIZE)
    set(TAPEHEAD_OPTIMIZE_FLAGS -O1)
    set(TAPEHEAD_OPTIMIZE_KERNEL_FLAGS -O1 $<$<C_COMPILER_ID:GNU>:-fexpensive-optimizations>)
    # These checks of pointers at each vector load cost minutes of compilation. AddressSanitizer finds the same errors.
    set(TAPEHEAD_SANITIZE_KERNEL_FLAGS -fno-sanitize=alignment,null,object-size,bounds,pointer-overflow)
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
endif()

# libFuzzer follows the branches of all code except the vector kernels. clang takes half an hour to compile them with sanitizers, and the
# preset asan checks them.
if(TAPEHEAD_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
    set(TAPEHEAD_SANITIZE_KERNEL_FLAGS -fno-sanitize=all)
endif()

# tapehead_library_part(target flag...): sets how all code of the libraries is compiled: C11 without extensions of the
# compiler (extensions of the C library are allowed), position independent. Only functions with TH_API or TH_PRIVATE_API are exported.
function(tapehead_library_part target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
        C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target} PRIVATE ${tapehead_SOURCE_DIR}/include ${tapehead_SOURCE_DIR}/src
        ${TAPEHEAD_LISTS})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE TAPEHEAD_NO_LOCATIONS)
    target_compile_options(${target} PRIVATE ${TAPEHEAD_WARNING_FLAGS} ${TAPEHEAD_COMMON_FLAGS} ${ARGN})
endfunction()
