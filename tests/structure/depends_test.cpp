// Why: the DEPENDS line of a library documents its includes, so it must match them exactly. A missing entry links by
// chance; a superfluous one suggests a dependency that does not exist.
#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/structure/sources.h"

namespace memtune::tests {
namespace {

using Names = std::set<std::string>;

struct Library {
  std::string name;
  std::string folder;  // of its CMakeLists.txt: "core/device/cuda"
  Names depends;
};

std::vector<Library> libraries_of(const std::string& folder, const std::string& cmake) {
  static const std::regex kLibrary(R"(memtune_library\(\s*(\w+)([^)]*)\))");
  static const std::regex kSection(R"(\b(SOURCES|DEPENDS|LIBRARIES)\b)");
  std::vector<Library> libraries;
  for (std::sregex_iterator match(cmake.begin(), cmake.end(), kLibrary), end; match != end; ++match) {
    Library library{(*match)[1], folder, {}};
    std::istringstream words((*match)[2]);
    bool depends = false;
    for (std::string word; words >> word;) {
      if (std::regex_match(word, kSection))
        depends = word == "DEPENDS";
      else if (depends)
        library.depends.insert(word);
    }
    libraries.push_back(library);
  }
  return libraries;
}

std::vector<Library> read_libraries() {
  std::vector<Library> libraries;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".txt"})) {
    const std::string folder = source.path.substr(0, source.path.rfind('/'));
    for (Library& library : libraries_of(folder, source.text)) libraries.push_back(std::move(library));
  }
  return libraries;
}

// The library of the innermost enclosing folder that has one; "": none.
std::string library_of(const std::map<std::string, std::string>& by_folder, std::string path) {
  while (path.find('/') != std::string::npos) {
    path.resize(path.rfind('/'));
    if (const auto found = by_folder.find(path); found != by_folder.end()) return found->second;
  }
  return "";
}

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

TEST_CASE("the DEPENDS of every library names the folders that its files include, and no others") {
  const std::vector<Library> libraries = read_libraries();
  std::map<std::string, std::string> by_folder;
  for (const Library& library : libraries) by_folder[library.folder] = library.name;
  std::map<std::string, Names> included;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h", ".cpp"})) {
    const std::string from = library_of(by_folder, source.path);
    for (const Include& include : includes_of(source)) {
      const std::string to = include.quoted ? library_of(by_folder, include.name) : "";
      if (!to.empty() && to != from) included[from].insert(to);
    }
  }
  for (const Library& library : libraries) {
    Names depends = library.depends;
    depends.erase("profiles");  // generated; core/config declares its contents
    CHECK_MESSAGE(joined(depends) == joined(included[library.name]), library.folder);
  }
  CHECK(libraries.size() >= 12);  // fewer would mean that they were not found
}

TEST_CASE("the words of a library's line") {
  const auto libraries = libraries_of("core/x",
                                      "memtune_library(x TORCH SOURCES a.cpp b.cpp\n DEPENDS base trace\n"
                                      " LIBRARIES ${CMAKE_DL_LIBS})\nadd_executable(y main.cpp)");
  REQUIRE(libraries.size() == 1);
  CHECK(libraries[0].name == "x");
  CHECK(joined(libraries[0].depends) == "base trace");
}

}  // namespace
}  // namespace memtune::tests
