#include "tests/structure/sources.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace memtune::tests {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = MEMTUNE_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// "//" within a string would go too; no test asks for text in strings.
std::string without_comments(std::string text) {
  bool line = false, block = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view two(text.data() + i, std::min<size_t>(2, text.size() - i));
    if (!block && two == "//") line = true;
    if (!line && two == "/*") block = true;
    if (text[i] == '\n') line = false;
    const bool ends = block && two == "*/";
    if ((line || block) && text[i] != '\n') text[i] = ' ';
    if (ends) text[i + 1] = ' ', block = false;
  }
  return text;
}

std::vector<std::smatch> matches(const std::string& text, const std::regex& regex) {
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

// Of the first memtune_library() of the file: name, LibTorch, DEPENDS.
void read_library(const std::string& cmake, Folder& folder) {
  static const std::regex kLibrary(R"(memtune_library\(\s*(\w+)([^)]*)\))");
  static const std::regex kDepends(R"(\bDEPENDS\b([\w\s]*?)(?=\bLIBRARIES\b|$))");
  std::smatch match, depends;
  if (!std::regex_search(cmake, match, kLibrary)) return;
  folder.library = match[1];
  const std::string words = match[2];
  folder.torch = words_of(words).contains("TORCH");
  if (std::regex_search(words, depends, kDepends)) folder.depends = words_of(depends[1]);
}

}  // namespace

std::string read_cmake(const std::string& folder) {
  const fs::path path = kRoot / folder / "CMakeLists.txt";
  if (!fs::exists(path)) throw std::runtime_error("there is no " + path.string());
  return std::regex_replace(read(path), std::regex("#[^\n]*"), "");
}

std::vector<std::string> folders_below(const std::string& folder) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
    if (fs::exists(entry.path() / "CMakeLists.txt")) folders.push_back(folder + "/" + entry.path().filename().string());
  }
  std::ranges::sort(folders);
  return folders;
}

std::vector<Source> read_sources(const std::vector<std::string>& folders, const std::vector<std::string>& endings) {
  std::vector<Source> sources;
  for (const std::string& folder : folders) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string name = entry.path().filename().string();
      if (std::ranges::none_of(endings, [&](const std::string& ending) { return name.ends_with(ending); })) continue;
      sources.push_back({fs::relative(entry.path(), kRoot).generic_string(), without_comments(read(entry.path()))});
    }
  }
  std::ranges::sort(sources, {}, &Source::path);
  return sources;
}

std::vector<Include> includes_of(const Source& source) {
  static const std::regex kInclude("\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  std::vector<Include> includes;
  std::istringstream stream(source.text);
  std::smatch match;
  for (std::string line; std::getline(stream, line);) {
    if (std::regex_match(line, match, kInclude)) includes.push_back({match[2], match[1] == "\""});
  }
  return includes;
}

Layers::Layers() {
  static const std::regex kGroup(R"(memtune_group\(\s*(\w+)(?:\s+ON\s+([\w\s]*))?\))");
  const std::string core = read_cmake("core");
  for (const std::smatch& match : matches(core, kGroup)) {
    groups_.push_back(match[1]);
    below_.push_back(words_of(match[2]));
    add("core/" + groups_.back(), groups_.back());
  }
  if (groups_.empty()) throw std::runtime_error("core/CMakeLists.txt names no group");
  add_program("gui");
  add_program("cli");
}

// A folder, then what it adds.
void Layers::add(const std::string& path, const std::string& group) {
  static const std::regex kFolder(R"(add_subdirectory\((\w+)\))");
  const std::string cmake = read_cmake(path);
  Folder folder{path, group, "", false, {}};
  read_library(cmake, folder);
  const bool module = cmake.find(" MODULE ") != std::string::npos;  // of CUDA
  folder.torch |= folder.library.empty() && module;
  if (!folder.library.empty() || module) folders_.push_back(folder);
  for (const std::smatch& match : matches(cmake, kFolder)) add(path + "/" + match.str(1), group);
}

// It stands on all of core.
void Layers::add_program(const std::string& name) {
  below_.emplace_back(groups_.begin(), std::ranges::find(groups_, "gui"));
  groups_.push_back(name);
  add(name, name);
  if (!folder_of(name + "/main.cpp")) folders_.push_back({name, name, "", false, {}});
}

const Folder* Layers::folder_of(const std::string& path) const {
  for (size_t end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    const auto found = std::ranges::find(folders_, path.substr(0, end), &Folder::path);
    if (found != folders_.end()) return &*found;
  }
  return nullptr;
}

bool Layers::may_include(const Folder& from, const Folder& to) const {
  const auto order = [&](const Folder& folder) { return std::ranges::find(folders_, folder.path, &Folder::path); };
  if (from.group == to.group) return order(to) <= order(from);
  return below_.at(std::ranges::find(groups_, from.group) - groups_.begin()).contains(to.group);
}

const Layers& layers() {
  static const Layers layers;
  return layers;
}

}  // namespace memtune::tests
