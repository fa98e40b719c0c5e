// Why: pages move and headings change, and their authors do not notice broken links.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace memtune::links_test {

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// All pages of the repository, without output of builds and runs.
std::vector<fs::path> pages(const fs::path& root) {
  std::vector<fs::path> found;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name.starts_with('.') || name == "build" || name.starts_with("memtune-run")))
      it.disable_recursion_pending();
    else if (it->path().extension() == ".md")
      found.push_back(it->path());
  }
  return found;
}

// The relative links of a page: "[...](docs/reference/json.md#the-answer)" gives "docs/reference/json.md#the-answer".
std::vector<std::string> links(const std::string& text) {
  static const std::regex kLink(R"(\]\(([^)\s]+)\))");
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), kLink), end; match != end; ++match)
    if (const std::string link = (*match)[1]; link.find("://") == std::string::npos) found.push_back(link);
  return found;
}

// GitHub's anchor of a heading: lower case, blanks become hyphens, other punctuation is dropped.
std::string anchor(const std::string& heading) {
  std::string result;
  for (const char c : heading) {
    if (c == ' ' || c == '-') result += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') result += static_cast<char>(std::tolower(c));
  }
  return result;
}

bool has_anchor(const std::string& text, const std::string& name) {
  static const std::regex kHeading(R"((?:^|\n)#+ +([^\n]+))");
  const std::sregex_iterator begin(text.begin(), text.end(), kHeading);
  return std::any_of(begin, {}, [&](const std::smatch& match) { return anchor(match[1]) == name; });
}

// The problem with a link of `page`; "": none.
std::string objection(const fs::path& page, const std::string& link) {
  const size_t hash = link.find('#');
  const fs::path target = hash == 0 ? page : page.parent_path() / link.substr(0, hash);
  if (!fs::exists(target)) return "there is no " + link;
  if (hash == std::string::npos || has_anchor(read(target), link.substr(hash + 1))) return "";
  return "no heading for " + link;
}

}  // namespace

TEST_CASE("every relative link between the pages leads somewhere") {
  size_t seen = 0;
  for (const fs::path& page : pages(MEMTUNE_SOURCE_DIR)) {
    for (const std::string& link : links(read(page))) {
      ++seen;
      const std::string text = objection(page, link);
      if (!text.empty()) FAIL_CHECK(page.string() << ": " << text);
    }
  }
  CHECK(seen > 30);  // fewer would mean that the pages were not found
}

TEST_CASE("a link to a file or heading that is not there is refused") {
  const fs::path readme = fs::path(MEMTUNE_SOURCE_DIR) / "README.md";
  CHECK(links("see [a](x/y.md#z), ![b](c.png) and [d](https://example.org)") ==
        std::vector<std::string>{"x/y.md#z", "c.png"});
  CHECK(objection(readme, "LICENSE") == "");
  CHECK(objection(readme, "docs/nothing.md") == "there is no docs/nothing.md");
  CHECK(objection(readme, "docs/reference/json.md#the-answer") == "");
  CHECK(objection(readme, "docs/reference/json.md#no-such-heading") ==
        "no heading for docs/reference/json.md#no-such-heading");
}

}  // namespace memtune::links_test
