# One small static library per folder. Its DEPENDS line documents the folders that it may include.
#
#   memtune_library(trace SOURCES event.cpp file.cpp DEPENDS base)          -> memtune_trace, memtune::trace
#   memtune_library(program TORCH SOURCES ... DEPENDS config)               the same, with LibTorch

add_library(memtune_options INTERFACE)
target_compile_features(memtune_options INTERFACE cxx_std_20)
# Installed headers have their own root, so that another library's core/ cannot conflict with them.
target_include_directories(memtune_options INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                           "$<INSTALL_INTERFACE:${MEMTUNE_INCLUDE_DIR}>")
# Warnings are only for memtune's own sources. g++ 12 reports false overlaps in "text" + std::string, and false writes
# beyond LibTorch's reference counts.
target_compile_options(memtune_options INTERFACE $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra>
                       $<BUILD_INTERFACE:$<$<BOOL:${MEMTUNE_WERROR}>:-Werror>>
                       $<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>>
                       $<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>>)
if(MEMTUNE_SANITIZE)
  # g++ reports false warnings in instrumented code. Targets with MEMTUNE_NOT_SANITIZED only link the sanitizer.
  set(instrumented $<NOT:$<BOOL:$<TARGET_PROPERTY:MEMTUNE_NOT_SANITIZED>>>)
  target_compile_options(memtune_options INTERFACE $<${instrumented}:-fsanitize=${MEMTUNE_SANITIZE}>
                         -fno-sanitize-recover=undefined -fno-omit-frame-pointer
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(memtune_options INTERFACE -fsanitize=${MEMTUNE_SANITIZE})
endif()

function(memtune_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "SOURCES;DEPENDS;LIBRARIES")
  set(target memtune_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(memtune::${name} ALIAS ${target})
  list(TRANSFORM arg_DEPENDS PREPEND memtune::)
  target_link_libraries(${target} PUBLIC memtune_options nlohmann_json::nlohmann_json ${arg_DEPENDS}
                        PRIVATE ${arg_LIBRARIES})
  # A unity build reads headers once for several sources. Names in anonymous namespaces must differ within a folder.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MEMTUNE_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  set(kind PLAIN)
  set(component core)
  if(arg_TORCH)
    memtune_use_torch(${target})
    set(kind TORCH)
    set(component engines)
  endif()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.h")
  file(GLOB rooms "${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt")  # other libraries, which this build may leave out
  foreach(room IN LISTS rooms)
    cmake_path(GET room PARENT_PATH room)
    list(FILTER headers EXCLUDE REGEX "^${room}/")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY MEMTUNE_${kind}_HEADERS ${headers})
  memtune_package(${target} ${name} ${component})
endfunction()
