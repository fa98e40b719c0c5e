// Why: a class that is declared ahead is a dependency that no #include shows; it has to point down like any other.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tests/structure/sources.h"
namespace memtune::tests::forward_declarations_test {
namespace {

using Folders = std::map<std::string, std::set<const Folder*>>;  // by the name of a class that their headers define

void add_definitions(const Source& source, Folders& folders) {
  static const std::regex kDefinition(
      R"((?:^|\n)(?:class|struct|enum class|enum)\s+(\w+)(?:\s+final)?\s*(?::[^;{(]*)?\{)");
  for (std::sregex_iterator match(source.text.begin(), source.text.end(), kDefinition), end; match != end; ++match)
    folders[(*match)[1]].insert(layers().folder_of(source.path));
}

const Folders& defining() {
  static const Folders folders = [] {
    Folders made;
    for (const Source& source : read_sources({"core", "cli", "gui"}, {".h"})) add_definitions(source, made);
    return made;
  }();
  return folders;
}

// What is wrong with the classes that the file declares and does not define; "" when nothing is.
std::string objection(const Source& source) {
  static const std::regex kDeclaration(R"((?:^|\n)(?:class|struct|enum class)\s+(\w+)(?:\s*:\s*\w+)?;)");
  const Folder* from = layers().folder_of(source.path);
  for (std::sregex_iterator match(source.text.begin(), source.text.end(), kDeclaration), end; match != end; ++match) {
    const auto found = defining().find((*match)[1]);
    if (found == defining().end()) continue;  // it is defined in a source
    const auto below = [&](const Folder* to) { return layers().may_include(*from, *to); };
    if (std::ranges::none_of(found->second, below))
      return source.path + " declares " + (*match).str(1) + " of " + (*found->second.begin())->path +
             ", which is not below it";
  }
  return "";
}

TEST_CASE("the classes that a file declares are defined in its folder or below it") {
  int files = 0;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h", ".cpp"})) {
    ++files;
    const std::string text = objection(source);
    if (!text.empty()) FAIL_CHECK(text);
  }
  CHECK(files >= 800);
  CHECK(defining().size() >= 400);
}

TEST_CASE("a declaration that points up or sideways is refused") {
  CHECK(objection({"core/base/x.h", "namespace memtune::trial {\nclass LoadedModelForwardBackwardSession;\n}"}) ==
        "core/base/x.h declares LoadedModelForwardBackwardSession of core/measure/trial, which is not below it");
  CHECK(objection({"core/engine/offload/x.h", "\nclass ShardedParameters;\n"}) != "");
  CHECK(objection({"core/measure/trial/x.h",
                   "\nclass ShardedParameters;\nclass LoadedModelForwardBackwardSession;\nstruct Unknown;\n"}) == "");
}

}  // namespace
}  // namespace memtune::tests::forward_declarations_test
