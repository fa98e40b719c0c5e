// The project's own sources as the tests of its structure see them: text, without comments.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memtune::tests {

struct Source {
  std::string path;  // from the root: "core/base/text.h"
  std::string text;
};

// Every file of these endings below the folders, sorted; comments are blanked out, lines stay where they are.
std::vector<Source> read_sources(const std::vector<std::string>& folders, const std::vector<std::string>& endings);

// The room a file stands in: "core/base/text.h" -> "base", "core/report/html/page.h" -> "report", "cli/main.cpp" ->
// "cli". A folder in a folder is a room of its own where it has a layer: "core/device/torch/x.h" -> "device/torch".
std::string folder_of(const std::string& path);

struct Include {
  std::string name;
  bool quoted;
};
std::vector<Include> includes_of(const Source& source);

// Bottom up; folders on one line never include each other. Unknown: -1.
int layer_of(const std::string& folder);

}  // namespace memtune::tests
