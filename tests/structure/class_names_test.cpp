// Why: if two folders use one name for different things, texts about either become unclear.
#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/structure/sources.h"

namespace memtune::tests {
namespace {

// Names that public headers of several folders may define, with the reason.
const std::map<std::string, std::string> kAllowed = {
    {"Event", "CUDA's word for a point in a stream, and every profiler's for what happened at a time"},
};

// The classes, structs and enums that the header defines at namespace level. Nested ones do not count.
std::set<std::string> defined_in(const Source& source) {
  static const std::regex kDefinition(
      R"((?:^|\n)(?:class|struct|enum class|enum)\s+(\w+)(?:\s+final)?\s*(?::[^;{(]*)?\{)");
  std::set<std::string> names;
  for (std::sregex_iterator match(source.text.begin(), source.text.end(), kDefinition), end; match != end; ++match)
    names.insert((*match)[1]);
  return names;
}

TEST_CASE("no two folders define a class of the same name") {
  std::map<std::string, std::set<std::string>> folders;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h"})) {
    for (const std::string& name : defined_in(source)) folders[name].insert(folder_of(source.path));
  }
  for (const auto& [name, in] : folders) {
    if (in.size() < 2 || kAllowed.contains(name)) continue;
    std::string text = name + " is defined in";
    for (const std::string& folder : in) text += " " + folder;
    FAIL_CHECK(text);
  }
  for (const auto& [name, reason] : kAllowed)
    CHECK_MESSAGE(folders[name].size() > 1, name << " needs no leave any more");
  CHECK(folders.size() >= 100);
}

TEST_CASE("definitions are told from declarations and from what is nested") {
  const auto names = defined_in({"core/x/y.h",
                                 "class A;\nstruct B {\n  enum class E { x };\n};\nenum class C { x };\n"
                                 "class D final : public E {\nvoid f(struct G g) {}\n};\n"});
  CHECK(names == std::set<std::string>{"B", "C", "D"});
}

}  // namespace
}  // namespace memtune::tests
