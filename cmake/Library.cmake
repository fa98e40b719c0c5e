# One small static library per folder. Its DEPENDS line documents the folders that it may include.
#
#   memtune_library(trace DEPENDS base)                 -> memtune_trace, memtune::trace, of all sources of the folder
#   memtune_library(program TORCH DEPENDS base facts)   the same, with LibTorch; EXCEPT leaves sources out, SOURCES adds some

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

# Functions of newer systems than MEMTUNE_PORTABLE allows: --wrap replaces each call.
if(MEMTUNE_PORTABLE)
  file(GLOB sources "${PROJECT_SOURCE_DIR}/cmake/portable/*.cpp")
  add_library(memtune_portable STATIC ${sources})
  set_target_properties(memtune_portable PROPERTIES POSITION_INDEPENDENT_CODE ON)
  foreach(symbol IN ITEMS _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE hypotf arc4random)
    target_link_options(memtune_options INTERFACE $<BUILD_INTERFACE:LINKER:--wrap=${symbol}>)
  endforeach()
  target_link_libraries(memtune_options INTERFACE $<BUILD_INTERFACE:memtune_portable>)
endif()

# Files below this folder, without those of folders that are libraries of their own, which may not be built here.
function(memtune_files_here result pattern)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${pattern}")
  file(GLOB inner "${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt")
  foreach(folder IN LISTS inner)
    cmake_path(GET folder PARENT_PATH folder)
    list(FILTER files EXCLUDE REGEX "^${folder}/")
  endforeach()
  set(${result} ${files} PARENT_SCOPE)
endfunction()

# The web build has only the groups of MEMTUNE_GROUPS.
function(memtune_group name)
  if(MEMTUNE_GROUPS AND NOT name IN_LIST MEMTUNE_GROUPS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ON")
  set(MEMTUNE_GROUP ${name})
  set(MEMTUNE_GROUPS_BELOW ${name} ${arg_ON} "")
  add_subdirectory(${name})
endfunction()

# A library depends on those that were added before it, of its group or of the groups that its group stands on.
function(memtune_check_order name)
  set_property(TARGET memtune_${name} PROPERTY MEMTUNE_GROUP "${MEMTUNE_GROUP}")
  foreach(other IN LISTS ARGN)
    if(NOT TARGET memtune_${other})
      message(FATAL_ERROR "memtune_${name} depends on ${other}, which is not added before it")
    endif()
    get_target_property(group memtune_${other} MEMTUNE_GROUP)
    if(MEMTUNE_GROUP AND NOT group IN_LIST MEMTUNE_GROUPS_BELOW)
      message(FATAL_ERROR "memtune_${name} of ${MEMTUNE_GROUP} depends on memtune_${other} of ${group}")
    endif()
  endforeach()
endfunction()

function(memtune_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "EXCEPT;SOURCES;DEPENDS;LIBRARIES")
  set(target memtune_${name})
  memtune_files_here(sources *.cpp)
  list(TRANSFORM arg_EXCEPT PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(REMOVE_ITEM sources ${arg_EXCEPT})
  add_library(${target} STATIC ${sources} ${arg_SOURCES})
  memtune_check_order(${name} ${arg_DEPENDS})
  add_library(memtune::${name} ALIAS ${target})
  list(TRANSFORM arg_DEPENDS PREPEND memtune::)
  target_link_libraries(${target} PUBLIC memtune_options nlohmann_json::nlohmann_json ${arg_DEPENDS}
                        PRIVATE ${arg_LIBRARIES})
  # A unity build reads headers once for several sources. Names in anonymous namespaces must differ within a folder.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MEMTUNE_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  # Between steps and after them, speed is not worth the longer compilation.
  if(MEMTUNE_GROUP MATCHES "^(answer|sweep)$" OR name STREQUAL cli)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  set(kind PLAIN)
  set(component core)
  if(arg_TORCH)
    memtune_use_torch(${target})
    set(kind TORCH)
    set(component engines)
  endif()
  memtune_files_here(headers *.h)
  set_property(GLOBAL APPEND PROPERTY MEMTUNE_${kind}_HEADERS ${headers})
  memtune_package(${target} ${name} ${component})
endfunction()

# memtune::NAME for those who link it by the name that it had: all of what its files are in now.
function(memtune_former_library name)
  add_library(memtune_${name} INTERFACE)
  add_library(memtune::${name} ALIAS memtune_${name})
  list(TRANSFORM ARGN PREPEND memtune::)
  target_link_libraries(memtune_${name} INTERFACE ${ARGN})
  memtune_package(memtune_${name} ${name} core)
endfunction()
