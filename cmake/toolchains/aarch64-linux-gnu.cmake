# Toolchain file for aarch64 Linux with Debian's cross compiler (package gcc-aarch64-linux-gnu):
#   cmake -S . -B build-aarch64 --toolchain cmake/toolchains/aarch64-linux-gnu.cmake
#
# -DCMAKE_FIND_ROOT_PATH=DIR names a directory with more libraries for aarch64, in DIR/usr/lib and DIR/usr/include.
# (scripts/platforms/cross.sh makes one with jansson, PCRE2, utf8proc and Check.) Programs run on this machine in QEMU's emulator of a process, if it
# is installed (package qemu-user).

set(TAPEHEAD_TOOLCHAIN aarch64)
set(TAPEHEAD_EMULATED aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
