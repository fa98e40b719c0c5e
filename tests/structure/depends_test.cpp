// Why: the DEPENDS line of a library is read as the documentation of what it includes, so it has to be exact: a missing
// one links by luck, a superfluous one makes folders look entangled.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/structure/sources.h"
namespace memtune::tests::depends_test {
namespace {

using Names = std::set<std::string>;

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

TEST_CASE("the DEPENDS of every library names the folders that its files include, and no others") {
  std::map<std::string, Names> included;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h", ".cpp"})) {
    const Folder* from = layers().folder_of(source.path);
    REQUIRE_MESSAGE(from, source.path);
    for (const Include& include : includes_of(source)) {
      const Folder* to = include.quoted ? layers().folder_of(include.name) : nullptr;
      if (to && to != from && !to->library.empty()) included[from->path].insert(to->library);
    }
  }
  int libraries = 0;
  for (const Folder& folder : layers().folders()) {
    if (folder.library.empty()) continue;
    ++libraries;
    Names depends = folder.depends;
    depends.erase("profiles");  // generated: core/base declares what it defines
    CHECK_MESSAGE(joined(depends) == joined(included[folder.path]), folder.path);
  }
  CHECK(libraries >= 40);  // fewer would mean that they were not found
}

// Of a library, with itself, and of what those depend on.
Names reached_from(const Names& libraries) {
  Names reached;
  for (Names next = libraries; !next.empty();) {
    Names further;
    for (const Folder& folder : layers().folders()) {
      if (next.contains(folder.library) && reached.insert(folder.library).second) further.merge(Names(folder.depends));
    }
    next = further;
  }
  return reached;
}

// The presets of the sanitizers take some folders of tests alone, so none may live on what another one links.
TEST_CASE("each folder of tests links the libraries that its files include") {
  static const std::regex kLinked(R"(target_link_libraries\(memtune-tests PRIVATE ([^)]*)\))");
  int folders = 0;
  for (const std::string& folder : folders_below("tests")) {
    const std::string cmake = read_cmake(folder);
    if (cmake.find("target_sources(memtune-tests ") == std::string::npos) continue;
    ++folders;
    Names linked = {folder.substr(folder.rfind('/') + 1)};
    for (auto match = std::sregex_iterator(cmake.begin(), cmake.end(), kLinked); match != std::sregex_iterator();
         ++match) {
      std::istringstream words((*match)[1]);
      for (std::string word; words >> word;) linked.insert(word.substr(word.rfind(':') + 1));
    }
    const Names reached = reached_from(linked);
    Names missing;
    for (const Source& source : read_sources({folder}, {"_test.cpp"})) {
      if (cmake.find(std::filesystem::path(source.path).filename().string()) == std::string::npos) continue;
      for (const Include& include : includes_of(source)) {
        const Folder* to = include.quoted ? layers().folder_of(include.name) : nullptr;
        if (to && !to->library.empty() && !reached.contains(to->library))
          missing.insert(source.path + " " + to->library);
      }
    }
    CHECK_MESSAGE(joined(missing) == "", folder);
  }
  CHECK(folders >= 20);
}

}  // namespace
}  // namespace memtune::tests::depends_test
