# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: the libraries, the public headers, and the package
# that find_package(tessera COMPONENTS engine training backends swap sim storage analysis exchange c inspector) finds.
include(CMakePackageConfigHelpers)

set(tessera_components)
foreach(component engine swap backends training sim storage analysis query exchange c inspector)
  if(TARGET tessera_${component})
    list(APPEND tessera_components ${component})
  endif()
endforeach()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

foreach(component ${tessera_components})
  install(TARGETS tessera_${component} EXPORT tessera_targets
          LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
          ARCHIVE COMPONENT development
          FILE_SET HEADERS COMPONENT development)
endforeach()
install(EXPORT tessera_targets NAMESPACE tessera:: FILE tesseraTargets.cmake
        DESTINATION ${package_dir} COMPONENT development)

set(tessera_modules_folder ${CMAKE_INSTALL_LIBDIR}/tessera)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tesseraConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tesseraConfig.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS tessera_modules_folder)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
              ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake DESTINATION ${package_dir}
        COMPONENT development)
if(TARGET tessera_inspector AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/FindImGui.cmake)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/FindImGui.cmake DESTINATION ${package_dir}
          COMPONENT development)
endif()

# pkg-config: tessera-c for C, tessera for C++ (static libraries, so what they use comes along).
set(tessera_pc_libs "-ltessera_exchange -ltessera_analysis -ltessera_storage -ltessera_sim -ltessera_training -ltessera_backends -ltessera_swap -ltessera_engine")
if(TESSERA_URING)
  string(APPEND tessera_pc_libs " -luring")
endif()
if(TESSERA_DNNL)
  string(APPEND tessera_pc_libs " -ldnnl")
  foreach(library ${OpenMP_CXX_LIB_NAMES})
    string(APPEND tessera_pc_libs " -l${library}")
  endforeach()
endif()
if(TESSERA_ZLIB)
  string(APPEND tessera_pc_libs " -lz")
endif()
if(TESSERA_ICU)
  string(APPEND tessera_pc_libs " -licui18n -licuuc")
endif()
# From .../pkgconfig to the prefix: two folders up, or three where libraries have one per machine.
file(RELATIVE_PATH tessera_pc_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(package tessera tessera-c)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT development)
endforeach()

# Packages of Debian: `cpack -G DEB` in the build folder makes tessera (program, modules, C library,
# pages of man, completions) and libtessera-dev (headers, static libraries, package files).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_CONTACT "The Tessera authors <tessera@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME tessera)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "openmpi-bin, python3-numpy")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtessera-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# Static libraries: who links them links what they use.
set(used_by_development "tessera (= ${PROJECT_VERSION}), libfmt-dev, libsqlite3-dev, nlohmann-json3-dev")
foreach(used URING:liburing-dev DNNL:libdnnl-dev ZLIB:zlib1g-dev ICU:libicu-dev)
  string(REPLACE ":" ";" used ${used})
  list(GET used 0 option)
  list(GET used 1 package)
  if(TESSERA_${option})
    string(APPEND used_by_development ", ${package}")
  endif()
endforeach()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ${used_by_development})
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "Simulates, trains and records sharded data parallelism (FSDP, DDP, ZeRO),\n and shows what happened.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers and libraries for programs that embed Tessera.")
include(CPack)
