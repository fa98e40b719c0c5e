# Third-party libraries of the viewer, compiled from MEMTUNE_VIEWER_SOURCES (scripts/lib.sh downloads them), without
# warnings and sanitizers.
#
#   memtune_imgui    Dear ImGui with its back ends for GLFW, OpenGL 3 and none     memtune_implot   charts
#   glfw             windows; X11, GL and EGL are opened at run time               memtune-embed    turns a font into an array

set(viewer_external "${MEMTUNE_VIEWER_SOURCES}/external")
if(NOT EXISTS "${viewer_external}/imgui/imgui/imgui.cpp")
  message(FATAL_ERROR "no sources of Dear ImGui in MEMTUNE_VIEWER_SOURCES='${MEMTUNE_VIEWER_SOURCES}': "
                      "scripts/memtune view fetches them; -DMEMTUNE_VIEWER=OFF builds without the viewer")
endif()

if(NOT EMSCRIPTEN)  # a browser has windows of its own
  foreach(option IN ITEMS WAYLAND DOCS TESTS EXAMPLES)
    set(GLFW_BUILD_${option} OFF CACHE BOOL "" FORCE)
  endforeach()
  set(GLFW_INSTALL OFF CACHE BOOL "" FORCE)
  set(GLFW_LIBRARY_TYPE STATIC CACHE STRING "" FORCE)
  add_subdirectory("${viewer_external}/glfw/glfw" "${PROJECT_BINARY_DIR}/glfw" EXCLUDE_FROM_ALL SYSTEM)
endif()

function(viewer_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;INCLUDES;DEFINITIONS;LIBRARIES")
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_include_directories(${name} SYSTEM PUBLIC ${arg_INCLUDES})
  target_compile_definitions(${name} PUBLIC ${arg_DEFINITIONS})
  target_compile_options(${name} PRIVATE -w)
  target_link_libraries(${name} PUBLIC ${arg_LIBRARIES})
endfunction()

set(imgui "${viewer_external}/imgui/imgui")
if(EMSCRIPTEN)
  set(imgui_windows "")
  set(imgui_windows_library "")
  set(imgui_graphics IMGUI_IMPL_OPENGL_ES3)
else()
  set(imgui_windows ${imgui}/backends/imgui_impl_glfw.cpp)
  set(imgui_windows_library glfw ${CMAKE_DL_LIBS})
  set(imgui_graphics "")
endif()
viewer_library(memtune_imgui
               SOURCES ${imgui}/imgui.cpp ${imgui}/imgui_draw.cpp ${imgui}/imgui_tables.cpp ${imgui}/imgui_widgets.cpp
                       ${imgui}/imgui_stacklayout.cpp ${imgui}/misc/cpp/imgui_stdlib.cpp
                       ${imgui_windows} ${imgui}/backends/imgui_impl_opengl3.cpp ${imgui}/backends/imgui_impl_null.cpp
               INCLUDES ${imgui} ${imgui}/backends ${imgui}/misc/cpp "${viewer_external}/glfw/glfw/deps"
               DEFINITIONS IMGUI_DISABLE_DEMO_WINDOWS IMGUI_DISABLE_OBSOLETE_FUNCTIONS ${imgui_graphics}
               LIBRARIES ${imgui_windows_library})

# Plots only take doubles, because all number types would add a minute of compile time.
set(implot "${viewer_external}/implot/implot")
viewer_library(memtune_implot SOURCES ${implot}/implot.cpp ${implot}/implot_items.cpp INCLUDES ${implot}
               LIBRARIES memtune_imgui)
target_compile_definitions(memtune_implot PRIVATE "IMPLOT_CUSTOM_NUMERIC_TYPES=(double)")

add_executable(memtune-embed EXCLUDE_FROM_ALL ${imgui}/misc/fonts/binary_to_compressed_c.cpp)
target_compile_options(memtune-embed PRIVATE -w)
if(EMSCRIPTEN)  # Node runs it; a file of its own would be fetched, which Node refuses
  target_link_options(memtune-embed PRIVATE -sNODERAWFS=1 -sALLOW_MEMORY_GROWTH=1 -sSINGLE_FILE=1)
endif()
