# Where toolchain files of cross compilers search: programs on this machine; libraries, headers and packages in CMAKE_FIND_ROOT_PATH and in
# TAPEHEAD_TOOLCHAIN_ROOT, the folder of the cross compiler.
list(APPEND CMAKE_FIND_ROOT_PATH ${TAPEHEAD_TOOLCHAIN_ROOT})
list(REMOVE_DUPLICATES CMAKE_FIND_ROOT_PATH)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CMAKE_FIND_ROOT_PATH)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
