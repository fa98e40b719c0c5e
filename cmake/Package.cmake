# memtune as a CMake package: headers in include/memtune/core, archives in lib/memtune, and two components.
#
#   core       memtune::core, and memtune::<folder> for each folder without LibTorch
#   engines    memtune::engines, and memtune::<folder> for each folder that runs training steps
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(MEMTUNE_INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR}/memtune)
set(MEMTUNE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/memtune)

add_library(memtune_core INTERFACE)
add_library(memtune_engines INTERFACE)
target_link_libraries(memtune_engines INTERFACE memtune_core)

# Installs archive and headers of a folder of core. Folders of the programs are not installed.
function(memtune_package target name component)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT folder MATCHES "^(core/|profiles$)")
    return()
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(memtune_${component} INTERFACE ${target})
  install(TARGETS ${target} EXPORT memtune-${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/memtune
          COMPONENT development)
  if(folder MATCHES "^core/")
    install(DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/" DESTINATION ${MEMTUNE_INCLUDE_DIR}/${folder} COMPONENT development
            FILES_MATCHING PATTERN "*.h")
  endif()
endfunction()

function(memtune_install_package)
  set_target_properties(memtune_options PROPERTIES EXPORT_NAME options)
  set_target_properties(memtune_core PROPERTIES EXPORT_NAME core)
  set_target_properties(memtune_engines PROPERTIES EXPORT_NAME engines)
  install(TARGETS memtune_options memtune_core EXPORT memtune-core)
  set(exports core)
  if(MEMTUNE_TORCH)
    install(TARGETS memtune_engines EXPORT memtune-engines)
    list(APPEND exports engines)
  endif()
  foreach(export IN LISTS exports)
    install(EXPORT memtune-${export} NAMESPACE memtune:: DESTINATION ${MEMTUNE_PACKAGE_DIR} COMPONENT development)
  endforeach()
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/memtuneConfig.cmake.in" memtuneConfig.cmake
                                INSTALL_DESTINATION ${MEMTUNE_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/memtuneConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/memtuneConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/memtuneConfigVersion.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake" "${PROJECT_SOURCE_DIR}/cmake/Libraries.cmake"
          DESTINATION ${MEMTUNE_PACKAGE_DIR} COMPONENT development)
endfunction()
