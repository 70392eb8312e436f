# Installation: headers, libraries, the CMake package and the pkg-config files. The installation can be moved: all of them
# find each other by relative paths. `cmake --install` installs two components, core and models (`--component core` installs
# the core alone). With TAPEHEAD_MODELS=OFF there is only the first.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapehead)

# All users can read directories that this installation creates, with any umask.
foreach(directory ${CMAKE_INSTALL_LIBDIR}/cmake ${package_dir} ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(DIRECTORY DESTINATION ${directory} COMPONENT core)
endforeach()

# -- headers: tapehead/models.h includes the headers of the models library; all others belong to the core --

file(STRINGS include/tapehead/models.h models_headers REGEX "^#include \"tapehead/")
list(FILTER models_headers EXCLUDE REGEX "tapehead/core\\.h")
list(TRANSFORM models_headers REPLACE "^#include \"(tapehead/.*)\"" "include/\\1")
list(APPEND models_headers include/tapehead/models.h)
file(GLOB core_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} include/tapehead/*.h)
list(REMOVE_ITEM core_headers ${models_headers})
install(FILES ${core_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapehead COMPONENT core)
if(TAPEHEAD_MODELS)
    install(FILES ${models_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapehead COMPONENT models)
endif()

# -- the libraries and the CMake package --

# tapehead_install(component target...)
function(tapehead_install component)
    install(TARGETS ${ARGN} EXPORT tapehead-${component}-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT tapehead-${component}-targets NAMESPACE tapehead:: DESTINATION ${package_dir} COMPONENT ${component})
endfunction()

tapehead_install(core tapehead tapehead_static)
if(TAPEHEAD_MODELS)
    tapehead_install(models tapehead_models tapehead_models_static)
endif()

configure_package_config_file(cmake/tapehead-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tapehead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config-version.cmake
    DESTINATION ${package_dir} COMPONENT core)

# -- pkg-config: the prefix is relative to the file, except if the library directory is an absolute path --

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

# tapehead_pkg_config(name component private_library...): installs name.pc, made from cmake/name.pc.in.
function(tapehead_pkg_config name component)
    list(TRANSFORM ARGN REPLACE "^([^/].*)$" "-l\\1" OUTPUT_VARIABLE libraries)
    list(JOIN libraries " " TAPEHEAD_PC_PRIVATE_LIBRARIES)
    configure_file(cmake/${name}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT ${component})
endfunction()

tapehead_pkg_config(tapehead core ${TAPEHEAD_CORE_LIBRARIES})
if(TAPEHEAD_MODELS)
    tapehead_pkg_config(tapehead_models models ${TAPEHEAD_MODELS_LIBRARIES} m)
endif()
