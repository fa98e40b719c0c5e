#include "core/record/measurement/step_memory_breakdown.h"

#include <algorithm>
#include <charconv>

#include "core/base/bounds.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::result {
namespace {

constexpr size_t kMaxLines = 64, kMaxModules = 64;    // more than the shim writes
constexpr size_t kMaxPaths = 2100, kMaxFrames = 200;  // more than the shim writes; deeper than Python allows by default

// In the order of StepMemoryCategory.
const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names = {"parameters",  "gradients",   "optimizer", "buffers",
                                                 "inputs",      "activations", "logits",    "attention",
                                                 "temporaries", "workspace",   "rounding",  "other"};
  return names;
}

bool is_size(int64_t bytes) { return bytes >= 0 && bytes <= kMaxBytes; }

}  // namespace

std::string to_string(StepMemoryCategory kind) { return kind_names().at(static_cast<size_t>(kind)); }

StepMemoryCategory parse_memory_kind(const std::string& text) {
  const auto found = std::ranges::find(kind_names(), text);
  if (found == kind_names().end()) throw UsageError(unknown_name("kind of memory", text, kind_names()));
  return static_cast<StepMemoryCategory>(found - kind_names().begin());
}

void check(const StepMemoryBreakdown& memory) {
  const auto fits = [](const StepMemoryOfCategory& each) {
    return is_size(each.before_bytes) && is_size(each.peak_bytes) && is_size(each.end_bytes);
  };
  if (memory.owners.size() > kMemoryKinds || !std::ranges::all_of(memory.owners, fits))
    throw UsageError("owners: no bytes of kinds");
  if (memory.lines.size() > kMaxLines ||
      !std::ranges::all_of(memory.lines, [](const AllocatingSourceLine& each) { return is_size(each.bytes); }))
    throw UsageError("lines: no bytes of lines");
  const auto is_part = [](const SameNamedModulesPeakMemory& each) {
    return is_size(each.bytes) && is_size(each.saved_bytes);
  };
  if (memory.modules.size() > kMaxModules || !std::ranges::all_of(memory.modules, is_part))
    throw UsageError("modules: no bytes of modules");
  if (!is_size(memory.measured_bytes)) throw UsageError("measured_bytes: no bytes");
  if (memory.paths.find('/') != std::string::npos) throw UsageError("paths: no name of a file");
}

int64_t peak_of(const StepMemoryBreakdown& memory) {
  int64_t sum = 0;
  for (const StepMemoryOfCategory& each : memory.owners) sum += each.peak_bytes;
  return sum;
}

std::vector<MemoryOfCallPath> parse_call_paths(std::string_view text) {
  std::vector<MemoryOfCallPath> paths;
  OverflowCheckedSum sum;
  for (const std::string& line : split(text, '\n')) {
    const size_t blank = line.rfind(' ');
    if (blank == std::string::npos) continue;
    MemoryOfCallPath path;
    const char* end = line.data() + line.size();
    const auto [parsed, error] = std::from_chars(line.data() + blank + 1, end, path.bytes);
    if (error != std::errc() || parsed != end || !sum.add(path.bytes)) continue;
    path.frames = split(printable_line(line.substr(0, blank)), ';');
    if (path.frames.size() > kMaxFrames) continue;
    if (paths.size() == kMaxPaths) break;
    paths.push_back(std::move(path));
  }
  return paths;
}

std::string to_text(const std::vector<MemoryOfCallPath>& paths) {
  std::string text;
  for (const MemoryOfCallPath& each : paths) text += join(each.frames, ";") + " " + std::to_string(each.bytes) + "\n";
  return text;
}

}  // namespace memtune::result
