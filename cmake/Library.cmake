# One small static library a folder; its DEPENDS line is the documentation of its arrows.
#
#   memtune_library(trace SOURCES event.cpp file.cpp DEPENDS base)          -> memtune_trace, memtune::trace
#   memtune_library(program TORCH SOURCES ... DEPENDS config)               the same, over LibTorch

add_library(memtune_options INTERFACE)
target_include_directories(memtune_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(memtune_options INTERFACE -Wall -Wextra $<$<BOOL:${MEMTUNE_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # g++ 12 invents overlaps in "text" + std::string
  target_compile_options(memtune_options INTERFACE -Wno-restrict)
endif()
if(MEMTUNE_SANITIZE)
  target_compile_options(memtune_options INTERFACE -fsanitize=${MEMTUNE_SANITIZE} -fno-sanitize-recover=undefined
                         -fno-omit-frame-pointer -Wno-maybe-uninitialized)  # g++ sees ghosts in instrumented code
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
  set(kind PLAIN)
  if(arg_TORCH)
    memtune_use_torch(${target})
    set(kind TORCH)
  endif()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.h")
  set_property(GLOBAL APPEND PROPERTY MEMTUNE_${kind}_HEADERS ${headers})
endfunction()
