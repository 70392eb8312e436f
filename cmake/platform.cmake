# Stops the configuration on platforms that are not supported: one sentence instead of many errors of the compiler.
include(cmake/architecture.cmake)

# tapehead_refuse(found): stops with a sentence that names what was found and what is supported.
function(tapehead_refuse found)
    message(FATAL_ERROR "Tapehead supports Linux on x86-64, little-endian aarch64, riscv64 and ppc64le, with gcc 11, clang 13 or later, "
        "Windows on x86-64 with mingw-w64, and WebAssembly with Emscripten 3.1, but ${found}.")
endfunction()

# tapehead_machine(result): sets `result` to the target of the compiler in its own words, such as x86_64-linux-gnu.
function(tapehead_machine result)
    separate_arguments(options UNIX_COMMAND "${CMAKE_C_COMPILER_ARG1}") # of CC="clang --target=..."
    if(CMAKE_C_COMPILER_TARGET)
        list(APPEND options ${CMAKE_C_COMPILE_OPTIONS_TARGET}${CMAKE_C_COMPILER_TARGET})
    endif()
    execute_process(COMMAND ${CMAKE_C_COMPILER} ${options} -dumpmachine
        OUTPUT_VARIABLE machine ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(${result} "${machine}" PARENT_SCOPE)
endfunction()

# tapehead_vector_extensions(): sets TAPEHEAD_VECTOR_EXTENSIONS to whether the compiler has the vector extensions that kernels use.
function(tapehead_vector_extensions)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    check_c_source_compiles("
typedef float floats __attribute__((vector_size(16)));
typedef int integers __attribute__((vector_size(16)));
integers converted(floats x);
integers converted(floats x)
{
    return __builtin_convertvector(x, integers);
}" TAPEHEAD_VECTOR_EXTENSIONS)
endfunction()

if(NOT CMAKE_SYSTEM_NAME MATCHES "^(Linux|Emscripten|Windows)$")
    tapehead_refuse("the system is ${CMAKE_SYSTEM_NAME}")
endif()
tapehead_machine(machine)
if(CMAKE_C_BYTE_ORDER STREQUAL "BIG_ENDIAN")
    tapehead_refuse("the compiler builds for ${machine}, which is big-endian")
endif()
if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8 AND NOT TAPEHEAD_ARCHITECTURE STREQUAL "wasm32")
    tapehead_refuse("the compiler builds for ${machine} with pointers of ${CMAKE_SIZEOF_VOID_P} bytes")
endif()
if(NOT TAPEHEAD_ARCHITECTURE)
    tapehead_refuse("the compiler builds for ${machine}")
endif()
if(TAPEHEAD_ARCHITECTURE STREQUAL "wasm32" AND (TAPEHEAD_OPENMP OR TAPEHEAD_MODELS OR TAPEHEAD_INSTALL))
    message(FATAL_ERROR "In WebAssembly Tapehead is a static core library with one thread: set TAPEHEAD_OPENMP, TAPEHEAD_MODELS and "
        "TAPEHEAD_INSTALL to OFF.")
endif()
if(WIN32 AND NOT (MINGW AND TAPEHEAD_ARCHITECTURE STREQUAL "x86_64"))
    tapehead_refuse("the compiler builds for ${machine}")
endif()
if(WIN32 AND (TAPEHEAD_OPENMP OR TAPEHEAD_INSTALL))
    message(FATAL_ERROR "On Windows Tapehead is static libraries without OpenMP and without installation: set TAPEHEAD_OPENMP and "
        "TAPEHEAD_INSTALL to OFF, as cmake/toolchains/x86_64-w64-mingw32.cmake does.")
endif()
tapehead_vector_extensions()
if(NOT TAPEHEAD_VECTOR_EXTENSIONS)
    tapehead_refuse("${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION} has no __builtin_convertvector")
endif()
