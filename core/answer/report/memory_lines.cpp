#include "core/answer/report/memory_lines.h"

#include <algorithm>
#include <functional>

#include "core/base/bounds.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {

using result::AllocatingSourceLine;

namespace {

constexpr size_t kLinesShown = 3;
constexpr int kSourceWidth = 60;

// One entry for each line of the source, whatever functions of PyTorch it called; the largest first.
std::vector<AllocatingSourceLine> merged_lines(const std::vector<AllocatingSourceLine>& lines) {
  std::vector<AllocatingSourceLine> merged;
  for (const AllocatingSourceLine& line : lines) {
    const auto same = std::ranges::find_if(
        merged, [&](const AllocatingSourceLine& each) { return each.file == line.file && each.line == line.line; });
    if (same == merged.end()) {
      merged.push_back(line);
    } else {
      same->bytes = std::min(kMaxBytes, same->bytes + line.bytes);
      same->count = std::min(kMaxBytes, same->count + line.count);
    }
  }
  std::ranges::stable_sort(merged, std::greater<>(), &AllocatingSourceLine::bytes);
  return merged;
}

}  // namespace

std::string place_text(const AllocatingSourceLine& line) {
  if (line.file.empty()) return "backward";
  if (line.line == 0) return line.file;  // the name of a part of the model
  return line.file.substr(line.file.rfind('/') + 1) + ":" + std::to_string(line.line) + " (" + line.function + ")";
}

std::string lines_text(const std::vector<AllocatingSourceLine>& lines) {
  std::vector<std::string> parts;
  for (const AllocatingSourceLine& line : merged_lines(lines)) {
    if (parts.size() == kLinesShown) break;
    parts.push_back(place_text(line) + (line.text.empty() ? "" : " `" + shorten(line.text, kSourceWidth) + "`") + " " +
                    format_bytes(line.bytes) + (line.count > 1 ? " in " + std::to_string(line.count) + " blocks" : ""));
  }
  return join(parts, ", ");
}

}  // namespace memtune::report
