# Toolchain file for ppc64le Linux with Debian's cross compiler (package gcc-powerpc64le-linux-gnu), like aarch64-linux-gnu.cmake. C++ is not needed
# without tests:
#   cmake -S . -B build-ppc64le --toolchain cmake/toolchains/powerpc64le-linux-gnu.cmake -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF

set(TAPEHEAD_TOOLCHAIN powerpc64le)
set(TAPEHEAD_EMULATED ppc64le)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
