# Installation: headers, both libraries, the CMake package and the pkg-config file. What is installed can be moved: both find
# everything else relative to themselves.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapehead)

# Directories that come first with this library are for all users, whatever the umask of who installs.
foreach(directory ${CMAKE_INSTALL_LIBDIR}/cmake ${package_dir} ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(DIRECTORY DESTINATION ${directory})
endforeach()

install(TARGETS tapehead tapehead_static EXPORT tapehead-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/tapehead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT tapehead-targets NAMESPACE tapehead:: DESTINATION ${package_dir})

configure_package_config_file(cmake/tapehead-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tapehead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config-version.cmake
    DESTINATION ${package_dir})

# pkg-config: the prefix relative to the file, unless the library directory was given as an absolute path.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(TAPEHEAD_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
    set(TAPEHEAD_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
else()
    file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" up "${up}")
    set(TAPEHEAD_PC_PREFIX "\${pcfiledir}/${up}")
    set(TAPEHEAD_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
    set(TAPEHEAD_PC_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
else()
    set(TAPEHEAD_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
list(TRANSFORM TAPEHEAD_PRIVATE_LIBRARIES REPLACE "^([^/].*)$" "-l\\1" OUTPUT_VARIABLE private_libraries)
list(JOIN private_libraries " " TAPEHEAD_PC_PRIVATE_LIBRARIES)
configure_file(cmake/tapehead.pc.in ${CMAKE_CURRENT_BINARY_DIR}/tapehead.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tapehead.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
