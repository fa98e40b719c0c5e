// Why: a forward declaration is a dependency without an #include. It must point down like any other.
#include <doctest/doctest.h>

#include <regex>

#include "tests/structure/sources.h"

namespace memtune::tests {
namespace {

// The problem with names of other folders that the file declares; "": none.
std::string objection(const Source& source) {
  static const std::regex kNamespace(R"(\bnamespace memtune::(\w+)[\w:]*\s*\{)");
  const std::string folder = folder_of(source.path), from = folder.substr(0, folder.find('/'));
  for (std::sregex_iterator match(source.text.begin(), source.text.end(), kNamespace), end; match != end; ++match) {
    const std::string to = (*match)[1];
    if (to != from && layer_of(to) >= layer_of(from))
      return source.path + " declares names of " + to + ", which is not below it";
  }
  return "";
}

TEST_CASE("what a file declares of other folders lies below it") {
  int files = 0;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h", ".cpp"})) {
    ++files;
    const std::string text = objection(source);
    if (!text.empty()) FAIL_CHECK(text);
  }
  CHECK(files >= 40);
}

TEST_CASE("a declaration that points up or sideways is refused") {
  CHECK(objection({"core/autograd/x.h", "namespace memtune::offload {\nclass Transfer;\n}"}) ==
        "core/autograd/x.h declares names of offload, which is not below it");
  CHECK(objection({"core/offload/x.h", "namespace memtune::checkpoint {\nclass Y;\n}"}) != "");
  CHECK(objection({"core/offload/x.h", "namespace memtune::base {\nclass Y;\n}\nnamespace memtune::offload {\n}"}) ==
        "");
}

}  // namespace
}  // namespace memtune::tests
