#include "tests/structure/sources.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

namespace memtune::tests {
namespace {

namespace fs = std::filesystem;

const std::vector<std::vector<std::string>> kLayers = {
    {"base"},
    {"config", "trace", "disk", "device", "safetensors"},
    {"result", "device/torch", "device/cuda", "tier", "gather", "autograd", "quantized"},
    {"program", "optimizer"},
    {"frontend", "offload", "checkpoint", "state", "shard", "profiler", "findings", "plan", "process", "launch"},
    {"report"},
    {"trainer", "attach", "planner"},
    {"step"},
    {"trial"},
    {"sweep"},
    {"gui/model"},
    {"gui/pane"},
    {"gui/platform"},
    {"cli", "gui"},
};

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Also blanks "//" in strings, which no test here reads.
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

}  // namespace

std::vector<Source> read_sources(const std::vector<std::string>& folders, const std::vector<std::string>& endings) {
  const fs::path root = MEMTUNE_SOURCE_DIR;
  std::vector<Source> sources;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (std::ranges::count(endings, entry.path().extension().string()) == 0) continue;
      sources.push_back({fs::relative(entry.path(), root).generic_string(), without_comments(read(entry.path()))});
    }
  }
  std::ranges::sort(sources, {}, &Source::path);
  return sources;
}

std::string folder_of(const std::string& path) {
  std::smatch match;
  if (!std::regex_match(path, match, std::regex("(?:core/(\\w+)|(cli|gui))(/\\w+)?/.+"))) return "";
  const std::string outer = match.str(1) + match.str(2), inner = outer + match.str(3);
  return layer_of(inner) < 0 ? outer : inner;
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

int layer_of(const std::string& folder) {
  for (size_t layer = 0; layer < kLayers.size(); ++layer) {
    if (std::ranges::count(kLayers[layer], folder) > 0) return static_cast<int>(layer);
  }
  return -1;
}

}  // namespace memtune::tests
