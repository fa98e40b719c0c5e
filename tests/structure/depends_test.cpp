// Why: the DEPENDS line of a library is read as the documentation of what it includes, so it has to be exact: a missing
// one links by luck, a superfluous one makes folders look entangled.
#include <doctest/doctest.h>

#include <map>
#include <set>

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

}  // namespace
}  // namespace memtune::tests::depends_test
