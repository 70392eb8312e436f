# Installation, in four components (`cmake --install build --component NAME`; without a name, all of them):
#   runtime   the shared libraries
#   devel     headers, static libraries, the links that a linker follows, the CMake package, the pkg-config files
#   doc       the pages with their pictures and the programs of the lessons, and with TAPEHEAD_REFERENCE the reference of the headers
#   examples  the sources of the examples, and a CMakeLists.txt that builds them with the installed libraries
# The installation can be moved: its files find each other by relative paths.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapehead)
set(examples_dir ${CMAKE_INSTALL_DOCDIR}/examples)

# tapehead_directory(component directory): all users can read this directory and those between it and the prefix, with any umask.
function(tapehead_directory component directory)
    get_filename_component(parent ${directory} DIRECTORY)
    if(parent AND NOT IS_ABSOLUTE ${directory})
        tapehead_directory(${component} ${parent})
    endif()
    install(DIRECTORY DESTINATION ${directory} COMPONENT ${component})
endfunction()

# -- runtime and devel: the libraries, the headers, the CMake package --

tapehead_directory(runtime ${CMAKE_INSTALL_LIBDIR})
tapehead_directory(devel ${CMAKE_INSTALL_LIBDIR}/cmake) # (the library directory may be an absolute path)
tapehead_directory(devel ${package_dir})
tapehead_directory(devel ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
tapehead_directory(devel ${CMAKE_INSTALL_INCLUDEDIR}/tapehead)

# tapehead_install(name target...): users know `name` as a component of find_package.
function(tapehead_install name)
    install(TARGETS ${ARGN} EXPORT tapehead-${name}-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT devel
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT tapehead-${name}-targets NAMESPACE tapehead:: DESTINATION ${package_dir} COMPONENT devel)
endfunction()

tapehead_install(core tapehead tapehead_static)
if(TAPEHEAD_MODELS)
    tapehead_install(models tapehead_models tapehead_models_static)
endif()

# tapehead/models.h includes the headers of the models library; all others belong to the core.
file(STRINGS include/tapehead/models.h models_headers REGEX "^#include \"tapehead/")
list(FILTER models_headers EXCLUDE REGEX "tapehead/core\\.h")
list(TRANSFORM models_headers REPLACE "^#include \"(tapehead/.*)\"" "include/\\1")
list(APPEND models_headers include/tapehead/models.h)
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} include/tapehead/*.h)
if(NOT TAPEHEAD_MODELS)
    list(REMOVE_ITEM headers ${models_headers})
endif()
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapehead COMPONENT devel)

configure_package_config_file(cmake/tapehead-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tapehead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/tapehead-config-version.cmake
    DESTINATION ${package_dir} COMPONENT devel)

# -- doc: pages and pictures in their folders, because they link each other; the reference --

tapehead_directory(doc ${CMAKE_INSTALL_DOCDIR}/tests)
tapehead_directory(doc ${CMAKE_INSTALL_DOCDIR}/python)
file(GLOB pages CONFIGURE_DEPENDS *.md)
install(FILES ${pages} LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
install(FILES tests/checksums.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}/tests COMPONENT doc)
install(FILES python/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/python COMPONENT doc)
install(DIRECTORY docs bench DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN docs/reference EXCLUDE
    PATTERN bench/studies EXCLUDE PATTERN __pycache__ EXCLUDE) # they would be empty folders
tapehead_directory(doc ${CMAKE_INSTALL_DOCDIR}/teaching)
install(DIRECTORY teaching/lessons DESTINATION ${CMAKE_INSTALL_DOCDIR}/teaching COMPONENT doc
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.[ch]")

# The archive of a release has the reference already.
set(reference ${PROJECT_SOURCE_DIR}/docs/reference)
if(TAPEHEAD_REFERENCE)
    set(reference ${PROJECT_BINARY_DIR}/docs/reference)
    find_program(TAPEHEAD_DOXYGEN doxygen REQUIRED)
    mark_as_advanced(TAPEHEAD_DOXYGEN)
    add_custom_command(OUTPUT ${reference}/index.html
        COMMAND ${PROJECT_SOURCE_DIR}/docs/reference.sh ${PROJECT_SOURCE_DIR} ${reference}
        DEPENDS ${headers} docs/Doxyfile docs/doxygen.awk docs/reference.sh VERBATIM)
    add_custom_target(tapehead_reference ALL DEPENDS ${reference}/index.html)
endif()
if(TAPEHEAD_REFERENCE OR EXISTS ${reference})
    install(DIRECTORY ${reference} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT doc)
endif()

# -- examples --

tapehead_directory(examples ${examples_dir})
# Users get a program as an example: NAME.c, and its other files in NAME/.
install(DIRECTORY examples/ programs/ DESTINATION ${examples_dir} COMPONENT examples
    FILES_MATCHING PATTERN "*.[ch]" PATTERN language_model.c EXCLUDE PATTERN encoder.c EXCLUDE PATTERN two_files EXCLUDE)
install(FILES programs/language_model/language_model.c programs/encoder/encoder.c DESTINATION ${examples_dir} COMPONENT examples)
tapehead_directory(examples ${examples_dir}/class)
file(GLOB lessons CONFIGURE_DEPENDS teaching/lessons/*.[ch])
install(FILES ${lessons} DESTINATION ${examples_dir}/class COMPONENT examples)
install(FILES examples/standalone.cmake DESTINATION ${examples_dir} COMPONENT examples RENAME CMakeLists.txt)

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

# tapehead_pkg_config(NAME private_library...): installs NAME.pc, made from cmake/NAME.pc.in.
function(tapehead_pkg_config name)
    list(TRANSFORM ARGN REPLACE "^([^/].*)$" "-l\\1" OUTPUT_VARIABLE libraries)
    list(JOIN libraries " " TAPEHEAD_PC_PRIVATE_LIBRARIES)
    configure_file(cmake/${name}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
endfunction()

tapehead_pkg_config(tapehead ${TAPEHEAD_CORE_LIBRARIES})
if(TAPEHEAD_MODELS)
    tapehead_pkg_config(tapehead_models ${TAPEHEAD_MODELS_LIBRARIES} m)
endif()
