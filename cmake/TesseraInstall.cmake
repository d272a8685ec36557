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
  install(TARGETS tessera_${component} EXPORT tessera_targets FILE_SET HEADERS)
endforeach()
install(EXPORT tessera_targets NAMESPACE tessera:: FILE tesseraTargets.cmake
        DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tesseraConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tesseraConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
              ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake DESTINATION ${package_dir})
if(TARGET tessera_inspector AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/FindImGui.cmake)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/FindImGui.cmake DESTINATION ${package_dir})
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
foreach(package tessera tessera-c)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
