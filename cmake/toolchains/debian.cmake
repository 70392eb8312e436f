# What the toolchain files of Debian's cross compilers share. They set TAPEHEAD_TOOLCHAIN, as in the names of the compilers, and TAPEHEAD_EMULATED, as in
# the names of QEMU's emulators.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TAPEHEAD_TOOLCHAIN})
set(CMAKE_C_COMPILER ${TAPEHEAD_TOOLCHAIN}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${TAPEHEAD_TOOLCHAIN}-linux-gnu-g++)

set(TAPEHEAD_TOOLCHAIN_ROOT /usr/${TAPEHEAD_TOOLCHAIN}-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/find_root.cmake)

# pkg-config searches the first of these directories.
list(GET CMAKE_FIND_ROOT_PATH 0 root)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/${TAPEHEAD_TOOLCHAIN}-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)

find_program(TAPEHEAD_QEMU NAMES qemu-${TAPEHEAD_EMULATED} qemu-${TAPEHEAD_EMULATED}-static)
mark_as_advanced(TAPEHEAD_QEMU)
if(TAPEHEAD_QEMU)
    list(TRANSFORM CMAKE_FIND_ROOT_PATH APPEND /usr/lib/${TAPEHEAD_TOOLCHAIN}-linux-gnu OUTPUT_VARIABLE directories)
    list(JOIN directories ":" directories)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${TAPEHEAD_QEMU} -L /usr/${TAPEHEAD_TOOLCHAIN}-linux-gnu -E LD_LIBRARY_PATH=${directories})
endif()
