// Why: a header that lacks an #include compiles only because of earlier includes. A source that includes its own header
// first proves that it compiles alone. Headers without a source are compiled separately (tests/CMakeLists.txt).
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/structure/sources.h"
namespace memtune::tests::headers_test {
namespace {

// The problem with the header, or with the source of the same name; "": none.
std::string objection(const Source& header, const Source* source) {
  if (header.text.find("#pragma once\n") == std::string::npos) return header.path + " lacks #pragma once";
  if (!source) return "";
  const std::vector<Include> includes = includes_of(*source);
  if (!includes.empty() && includes.front().quoted && includes.front().name == header.path) return "";
  return source->path + " does not include " + header.path + " first";
}

TEST_CASE("every header is included once, and first by the source of its name") {
  const std::vector<Source> headers = read_sources({"core", "cli", "gui"}, {".h"});
  const std::vector<Source> sources = read_sources({"core", "cli", "gui"}, {".cpp"});
  std::map<std::string, const Source*> by_path;
  for (const Source& source : sources) by_path[source.path] = &source;
  int own = 0;
  for (const Source& header : headers) {
    const auto found = by_path.find(header.path.substr(0, header.path.size() - 2) + ".cpp");
    own += found != by_path.end();
    const std::string text = objection(header, found == by_path.end() ? nullptr : found->second);
    if (!text.empty()) FAIL_CHECK(text);
  }
  CHECK(own >= 400);
}

TEST_CASE("a header that lacks its guard, or that its source includes late or never, is refused") {
  const Source header{"core/x/y.h", "#pragma once\nint f();\n"};
  const auto with = [](const std::string& text) { return Source{"core/x/y.cpp", text}; };
  const Source first = with("#include \"core/x/y.h\"\n\n#include <map>\n"),
               late = with("#include <map>\n#include \"core/x/y.h\"\n"), never = with("int f() { return 1; }\n"),
               other = with("#include <core/x/y.h>\n");
  CHECK(objection(header, nullptr) == "");
  CHECK(objection(header, &first) == "");
  for (const Source* source : {&late, &never, &other})
    CHECK(objection(header, source) == "core/x/y.cpp does not include core/x/y.h first");
  CHECK(objection({"core/x/y.h", "int f();\n"}, &first) == "core/x/y.h lacks #pragma once");
}

}  // namespace
}  // namespace memtune::tests::headers_test
