# Toolchain file for Windows on x86-64 with Debian's mingw-w64 (package gcc-mingw-w64-x86-64):
#   cmake -S . -B build-windows --toolchain cmake/toolchains/x86_64-w64-mingw32.cmake -DCMAKE_FIND_ROOT_PATH=DIR
#
# DIR has jansson and utf8proc for Windows, in DIR/lib and DIR/include (scripts/platforms/mingw.sh compiles them);
# -DTAPEHEAD_MODELS=OFF needs no DIR. The libraries are static, and a program needs only libraries that Windows has. Programs run in Wine, if it
# is installed.

foreach(option TAPEHEAD_OPENMP TAPEHEAD_INSTALL TAPEHEAD_COMPRESSION TAPEHEAD_TESTS)
    set(${option} OFF CACHE BOOL "not on Windows")
endforeach()
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)

set(TAPEHEAD_TOOLCHAIN_ROOT /usr/x86_64-w64-mingw32)
include(${CMAKE_CURRENT_LIST_DIR}/find_root.cmake)

find_program(TAPEHEAD_WINE wine)
mark_as_advanced(TAPEHEAD_WINE)
if(TAPEHEAD_WINE)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${TAPEHEAD_WINE})
endif()
