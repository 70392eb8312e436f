# Toolchain file for aarch64 Linux with Debian's cross compiler (package gcc-aarch64-linux-gnu):
#   cmake -S . -B build-aarch64 --toolchain cmake/toolchains/aarch64-linux-gnu.cmake
#
# -DCMAKE_FIND_ROOT_PATH=DIR names a directory with more libraries for aarch64, in DIR/usr/lib and DIR/usr/include.
# (scripts/platforms/cross.sh makes one with jansson, PCRE2, utf8proc and Check.) Programs run on this machine in QEMU's emulator of a process, if it
# is installed (package qemu-user).

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# Programs come from this machine; libraries, headers and packages do not.
list(APPEND CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
list(REMOVE_DUPLICATES CMAKE_FIND_ROOT_PATH)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CMAKE_FIND_ROOT_PATH)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()

# pkg-config searches the first of these directories.
list(GET CMAKE_FIND_ROOT_PATH 0 root)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)

find_program(TAPEHEAD_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
mark_as_advanced(TAPEHEAD_QEMU)
if(TAPEHEAD_QEMU)
    list(TRANSFORM CMAKE_FIND_ROOT_PATH APPEND /usr/lib/aarch64-linux-gnu OUTPUT_VARIABLE directories)
    list(JOIN directories ":" directories)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${TAPEHEAD_QEMU} -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${directories})
endif()
