# The viewer for browsers: compiled by Emscripten, packed into one page that `memtune report --html --interactive` fills
# with a run. It has the folders of core that the viewer stands on, and nothing that measures.
#
#   scripts/web -> build/web/bin/memtune-view.html

# Headers alone, by links: the C library's in the same folder are not Emscripten's.
set(web_headers "${PROJECT_BINARY_DIR}/headers")
file(MAKE_DIRECTORY "${web_headers}")
foreach(header IN ITEMS nlohmann xxhash.h)
  find_path(folder_of_${header} ${header} PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK "${folder_of_${header}}/${header}" "${web_headers}/${header}" SYMBOLIC)
endforeach()
add_library(nlohmann_json INTERFACE)
add_library(nlohmann_json::nlohmann_json ALIAS nlohmann_json)
target_include_directories(nlohmann_json SYSTEM INTERFACE "${web_headers}")
add_library(Threads::Threads INTERFACE IMPORTED)

add_compile_options(-fexceptions "SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/web/libcxx13.h")
add_link_options(-fexceptions)

include(cmake/Package.cmake)
include(cmake/Library.cmake)
set(MEMTUNE_TORCH OFF)
set(MEMTUNE_GROUPS base record plan answer)
add_custom_target(memtune_generated)
add_subdirectory(profiles)
add_subdirectory(core)
include(cmake/Viewer.cmake)
add_subdirectory(gui)
