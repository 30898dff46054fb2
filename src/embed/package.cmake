# The installed package: one static library of all modules that an embedding process needs, one
# public header, and a config file for find_package(lithify).
#
#   cmake --install build --component sdk --prefix PREFIX
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_objects)
foreach(_module IN ITEMS base config observe storage table plan rewrite commit job embed)
  list(APPEND _objects "$<TARGET_OBJECTS:lithify_${_module}>")
endforeach()
add_library(lithify_sdk STATIC ${_objects})
set_target_properties(lithify_sdk PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME lithify
  EXPORT_NAME compactor)
# Our own warnings and paths stay ours: only what a consumer must link is exported. What the public
# header can reach needs no catalog, so neither curl nor SQLite.
target_link_libraries(lithify_sdk INTERFACE Arrow::parquet Arrow::arrow OpenSSL::Crypto
  roaring Threads::Threads)
target_include_directories(lithify_sdk INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(lithify_sdk INTERFACE cxx_std_20)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lithify")
install(TARGETS lithify_sdk EXPORT lithifyTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT sdk)
install(EXPORT lithifyTargets NAMESPACE lithify:: DESTINATION "${_package_dir}" COMPONENT sdk)
install(FILES "${CMAKE_SOURCE_DIR}/include/lithify/compactor.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lithify" COMPONENT sdk)
configure_package_config_file("${CMAKE_CURRENT_SOURCE_DIR}/lithifyConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/lithifyConfig.cmake" INSTALL_DESTINATION "${_package_dir}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/lithifyConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/lithifyConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/lithifyConfigVersion.cmake"
  "${CMAKE_SOURCE_DIR}/cmake/FindArrowFromWheel.cmake"
  DESTINATION "${_package_dir}" COMPONENT sdk)
