// Reads the project's sources for the tests of its structure: text without comments.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memtune::tests {

struct Source {
  std::string path;  // from the root: "core/base/text.h"
  std::string text;
};

// All files with these endings in the folders, sorted. Comments become blanks; lines keep their numbers.
std::vector<Source> read_sources(const std::vector<std::string>& folders, const std::vector<std::string>& endings);

// The folder in the layers that contains the file: "core/base/text.h" -> "base", "core/report/html/page.h" -> "report",
// "cli/main.cpp" -> "cli". A subfolder counts alone if it has a layer: "core/device/torch/x.h" -> "device/torch".
std::string folder_of(const std::string& path);

struct Include {
  std::string name;
  bool quoted;
};
std::vector<Include> includes_of(const Source& source);

// Index from the bottom. Folders of the same layer never include each other. Unknown folder: -1.
int layer_of(const std::string& folder);

}  // namespace memtune::tests
