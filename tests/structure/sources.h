// The project's own sources and layers as the tests of its structure see them.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace memtune::tests {

struct Source {
  std::string path;  // from the root: "core/base/text.h"
  std::string text;
};

// The text of a folder's CMakeLists.txt without comments; throws std::runtime_error when there is none.
std::string read_cmake(const std::string& folder);
// The folders right below this one that have such a file, sorted: "tests/base".
std::vector<std::string> folders_below(const std::string& folder);

// Every file with one of these endings below the folders, sorted; comments are blanked out, lines stay where they are.
std::vector<Source> read_sources(const std::vector<std::string>& folders, const std::vector<std::string>& endings);

struct Include {
  std::string name;
  bool quoted;
};
std::vector<Include> includes_of(const Source& source);

// A folder that CMake builds by itself.
struct Folder {
  std::string path;     // "core/plan/planner", "gui/pane", "cli"
  std::string group;    // "plan"; of the programs their own folder: "gui", "cli"
  std::string library;  // "planner"; "" when it is no library of its own
  bool torch = false;   // it may include LibTorch
  std::set<std::string> depends;
};

// The folders in the order in which CMake adds them, bottom up, and the groups that each group may include.
class Layers {
 public:
  // Read from core/CMakeLists.txt and what it adds, then cli and gui. Throws std::runtime_error where it cannot.
  Layers();

  const std::vector<Folder>& folders() const { return folders_; }
  const std::vector<std::string>& groups() const { return groups_; }

  // The innermost folder around the file; null when there is none.
  const Folder* folder_of(const std::string& path) const;

  // Whether a file of one folder may include a file of the other: itself, one that was added before it in its group, or
  // one of a group below.
  bool may_include(const Folder& from, const Folder& to) const;

 private:
  void add(const std::string& path, const std::string& group);
  void add_program(const std::string& name);

  std::vector<Folder> folders_;
  std::vector<std::string> groups_;
  std::vector<std::set<std::string>> below_;  // of groups_
};
const Layers& layers();

}  // namespace memtune::tests
