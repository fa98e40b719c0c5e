#include "core/answer/report/chart/memory_chart.h"

#include <algorithm>
#include <map>

#include "core/answer/report/chart/chart.h"
#include "core/answer/report/chart/stacked_memory_series.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/record/trace/resident_values.h"

namespace memtune::report {
namespace {

using trace::MemoryOwnerKind;

constexpr int kPlotHeight = 340, kLegend = 64;
constexpr size_t kMaxTensors = 4;

const char* style_of(MemoryOwnerKind kind) {
  switch (kind) {
    case MemoryOwnerKind::parameters: return "s0";
    case MemoryOwnerKind::optimizer: return "s3";
    case MemoryOwnerKind::gradients: return "s5";
    case MemoryOwnerKind::inputs: return "s6";
    case MemoryOwnerKind::prefetched: return "s4";
    case MemoryOwnerKind::block: return "s2";
    case MemoryOwnerKind::outside: return "s1";
    case MemoryOwnerKind::work_space: return "s7";
  }
  return "s7";
}

// "layers.3" -> "layers": texts add up all blocks.
std::string family(const MemoryOwnerBand& band) {
  const std::string name = trace::family(band.owner);
  if (band.owner.kind != MemoryOwnerKind::block) return name;
  const std::string shared = name.substr(0, name.find_last_not_of("*.") + 1);
  return shared.empty() ? "blocks" : shared;  // a list's blocks are named "0", "1", ...
}

// One entry for all blocks: "layers.0 to layers.15".
std::vector<LegendEntry> legend_of(const StackedMemorySeries& stack) {
  std::vector<LegendEntry> entries;
  std::map<std::string, std::pair<size_t, std::string>> blocks;  // index of its entry, name of its first block
  for (const MemoryOwnerBand& band : stack.bands) {
    const auto found = blocks.find(family(band));
    if (band.owner.kind == MemoryOwnerKind::block && found != blocks.end()) {
      entries[found->second.first].text = found->second.second + " to " + band.owner.name;
      continue;
    }
    if (band.owner.kind == MemoryOwnerKind::block) blocks[family(band)] = {entries.size(), band.owner.name};
    entries.push_back({style_of(band.owner.kind), band.owner.name});
  }
  return entries;
}

class MemoryChart {
 public:
  MemoryChart(const trace::Trace& trace, const StackedMemorySeries& stack, int64_t top_bytes)
      : stack_(stack), svg_(kChartWidth, kPlotHeight + kLegend, "Memory over time, by who holds it") {
    frame_.bottom = kPlotHeight - 44;
    const int64_t top = std::max({top_bytes, stack.peak_bytes, trace.budget_bytes});
    unit_ = unit_for(top);
    y_ = {0, static_cast<double>(top) / unit_.bytes * 1.08, frame_.bottom, frame_.top};
    x_ = {0, static_cast<double>(stack.end_ns - stack.start_ns) / 1e6, frame_.left, frame_.right};
    budget_ = static_cast<double>(trace.budget_bytes) / unit_.bytes;
  }

  std::string draw() {
    put_x_axis(svg_, frame_, x_, "ms, traced steps");
    put_y_axis(svg_, frame_, y_, unit_.name);
    std::vector<int64_t> below(stack_.total.size());
    for (size_t i = 0; i < stack_.bands.size(); ++i) put_band(stack_.bands[i], i, below);
    if (budget_ > 0) put_budget();
    put_peak();
    put_legend(svg_, {frame_.left, kPlotHeight + 14}, frame_.right, legend_of(stack_));
    return std::move(svg_).finish();
  }

 private:
  double pixel(size_t column) const {
    return frame_.left +
           (frame_.right - frame_.left) * static_cast<double>(column) / static_cast<double>(stack_.total.size());
  }
  double height(int64_t bytes) const { return y_(static_cast<double>(bytes) / unit_.bytes); }

  // Memory changes in steps, so the outline has steps too. Columns with equal bytes share one.
  std::vector<Point> steps(const std::vector<int64_t>& bytes) const {
    std::vector<Point> points;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i > 0 && bytes[i] == bytes[i - 1]) continue;
      if (i > 0) points.push_back({pixel(i), points.back().y});
      points.push_back({pixel(i), height(bytes[i])});
    }
    points.push_back({pixel(bytes.size()), points.back().y});
    return points;
  }

  void put_band(const MemoryOwnerBand& band, size_t index, std::vector<int64_t>& below) {
    std::vector<Point> outline = steps(below);
    for (size_t i = 0; i < below.size(); ++i) below[i] += band.bytes[i];
    const std::vector<Point> upper = steps(below);
    outline.insert(outline.end(), upper.rbegin(), upper.rend());
    const int64_t most = *std::max_element(band.bytes.begin(), band.bytes.end());
    const bool pale = band.owner.kind == MemoryOwnerKind::block && index % 2 == 0;  // separates adjacent blocks
    svg_.area(outline, std::string(style_of(band.owner.kind)) + (pale ? " pale" : ""),
              band.owner.name + ": at most " + format_bytes(most));
  }

  void put_budget() {
    svg_.line({frame_.left, y_(budget_)}, {frame_.right, y_(budget_)}, "budget");
    svg_.text({frame_.right - 4, y_(budget_) - 5}, "budget", TextAnchor::end, "warn halo-text");
  }

  void put_peak() {
    const double x = x_(static_cast<double>(stack_.peak_ns - stack_.start_ns) / 1e6);
    const double y = height(stack_.peak_bytes);
    svg_.line({x, y}, {x, frame_.bottom}, "flag");
    svg_.dot({x, y}, 4, "flag");
    const bool right_half = x > (frame_.left + frame_.right) / 2;
    const std::string text =
        "peak " + format_bytes(stack_.peak_bytes) + (stack_.phase.empty() ? "" : ", ") + shorten(stack_.phase, 40);
    svg_.text({x + (right_half ? -9 : 9), y - 6}, text, right_half ? TextAnchor::end : TextAnchor::start,
              "label strong halo-text");
  }

  const StackedMemorySeries& stack_;
  SvgWriter svg_;
  PlotAreaRect frame_;
  ByteDisplayUnit unit_{"GiB", 1};
  AxisScale x_, y_;
  double budget_ = 0;
};

}  // namespace

std::string memory_chart(const trace::Trace& trace, int64_t top_bytes) {
  const StackedMemorySeries stack = stack_memory(trace, kChartWidth - 80);
  return stack.empty() ? "" : MemoryChart(trace, stack, top_bytes).draw();
}

std::string peak_text(const trace::Trace& trace) {
  const StackedMemorySeries stack = stack_memory(trace, 1);
  if (stack.empty()) return "";
  std::map<std::string, int64_t> held;
  for (size_t i = 0; i < stack.bands.size(); ++i) held[family(stack.bands[i])] += stack.at_peak[i];
  std::vector<std::pair<std::string, int64_t>> owners(held.begin(), held.end());
  std::sort(owners.begin(), owners.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [owner, bytes] : owners) {
    if (bytes > 0 && parts.size() < 4) parts.push_back(owner + " " + format_bytes(bytes));
  }
  return format_bytes(stack.peak_bytes) + " at " + fixed(static_cast<double>(stack.peak_ns - stack.start_ns) / 1e6, 1) +
         " ms" + (stack.phase.empty() ? "" : ", in " + stack.phase) + (parts.empty() ? "" : ": " + join(parts, ", "));
}

std::string tensors_text(const trace::Trace& trace) {
  const StackedMemorySeries stack = stack_memory(trace, 1);
  std::vector<std::string> parts;
  if (stack.empty()) return "";
  for (const trace::ResidentActivationTotalsOfOp& held : trace::held_values(trace, stack.peak_ns)) {
    if (parts.size() == kMaxTensors) break;
    const std::string count = held.count > 1 ? " (" + std::to_string(held.count) + ")" : "";
    parts.push_back(held.name + count + " " + format_bytes(held.bytes));
  }
  return join(parts, ", ");
}

}  // namespace memtune::report
