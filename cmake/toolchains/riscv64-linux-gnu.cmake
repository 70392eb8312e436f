# Toolchain file for riscv64 Linux with Debian's cross compiler (package gcc-riscv64-linux-gnu), like aarch64-linux-gnu.cmake. C++ is not needed
# without tests:
#   cmake -S . -B build-riscv64 --toolchain cmake/toolchains/riscv64-linux-gnu.cmake -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF

set(TAPEHEAD_TOOLCHAIN riscv64)
set(TAPEHEAD_EMULATED riscv64)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
