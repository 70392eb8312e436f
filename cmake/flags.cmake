# Compiler flags that every part of the library shares. There is no fast-math among them: -fno-math-errno and
# -fno-trapping-math change no value, they only let loops with sqrt and comparisons become vector code.

set(TAPEHEAD_WARNING_FLAGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wno-unknown-pragmas)
if(TAPEHEAD_WERROR)
    list(APPEND TAPEHEAD_WARNING_FLAGS -Werror)
endif()

set(TAPEHEAD_COMMON_FLAGS -fno-math-errno -fno-trapping-math)

# For kernels: a multiplication and the addition of its result are one operation wherever there is one. In chains of them gcc
# would leave some apart, for processors that it finds faster so (from version 14 on for any).
set(TAPEHEAD_CONTRACT_FLAGS -ffp-contract=fast $<$<C_COMPILER_ID:GNU>:--param=avoid-fma-max-bits=0>)

# Optimization comes after CMake's own flags, so that the last one counts. Under the sanitizers -O1 keeps reports readable;
# there gcc fuses multiply-add only with -fexpensive-optimizations.
set(TAPEHEAD_OPTIMIZE_FLAGS $<$<CONFIG:Release,RelWithDebInfo>:-O2>)
set(TAPEHEAD_OPTIMIZE_KERNEL_FLAGS $<IF:$<CONFIG:Debug>,-O2,-O3>)
if(TAPEHEAD_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -g)
    add_link_options(-fsanitize=thread)
elseif(TAPEHEAD_SANITIZE)
    set(TAPEHEAD_OPTIMIZE_FLAGS -O1)
    set(TAPEHEAD_OPTIMIZE_KERNEL_FLAGS -O1 $<$<C_COMPILER_ID:GNU>:-fexpensive-optimizations>)
    # Around every vector load these checks of pointers cost minutes of compilation; AddressSanitizer sees what they would.
    set(TAPEHEAD_SANITIZE_KERNEL_FLAGS -fno-sanitize=alignment,null,object-size,bounds,pointer-overflow)
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
endif()

# Everything that becomes part of the library: C11 without extensions (but with the C library's), position independent,
# nothing exported but what a public header declares.
function(tapehead_library_part target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
        C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target} PRIVATE ${tapehead_SOURCE_DIR}/include ${tapehead_SOURCE_DIR}/src
        ${TAPEHEAD_LISTS})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE TAPEHEAD_NO_LOCATIONS)
    target_compile_options(${target} PRIVATE ${TAPEHEAD_WARNING_FLAGS} ${TAPEHEAD_COMMON_FLAGS} ${ARGN})
endfunction()
