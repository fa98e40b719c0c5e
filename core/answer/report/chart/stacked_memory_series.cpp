#include "core/answer/report/chart/stacked_memory_series.h"

#include <algorithm>
#include <numeric>

namespace memtune::report {
namespace {

// Long-lived owners are at the bottom.
std::vector<uint32_t> stacking_order(const trace::Trace& trace) {
  std::vector<uint32_t> order(trace.owners.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return trace.owners[a].kind < trace.owners[b].kind; });
  return order;
}

class Stacker {
 public:
  Stacker(const trace::Trace& trace, int columns) : trace_(trace), order_(stacking_order(trace)) {
    held_.resize(trace.owners.size());
    if (trace.memory.empty() || columns < 1) return;
    stack_.start_ns = trace.memory.front().time_ns;
    stack_.end_ns = std::max(trace.memory.back().time_ns, stack_.start_ns + 1);
    stack_.total.resize(static_cast<size_t>(columns));
    stack_.bands.resize(order_.size() + 1);
    for (size_t i = 0; i < order_.size(); ++i) stack_.bands[i].owner = trace.owners[order_[i]];
    stack_.bands.back().owner = {trace::MemoryOwnerKind::work_space, "work space"};
    for (MemoryOwnerBand& band : stack_.bands) band.bytes.resize(stack_.total.size());
    stack_.at_peak.resize(stack_.bands.size());
  }

  StackedMemorySeries stack() {
    if (stack_.empty()) return {};
    size_t next = 0;
    int64_t last = trace_.memory.front().allocated_bytes;
    for (size_t column = 0; column < stack_.total.size(); ++column) {
      const size_t begin = next;
      while (next < trace_.memory.size() && column_of(trace_.memory[next].time_ns) <= column) ++next;
      if (next > begin) {
        const trace::AllocatedBytesSample& highest = highest_of(begin, next);
        if (last > highest.allocated_bytes)
          fill(column, last);  // memory only falls in this column: show its state at the column's start
        else
          put(column, highest);
        hold_until(trace_.memory[next - 1].time_ns);
        last = trace_.memory[next - 1].allocated_bytes;
      } else {
        hold_until(column_end(column));
        fill(column, last);
      }
    }
    drop_empty_bands();
    if (const trace::TraceEvent* region = trace::region_at(trace_, stack_.peak_ns))
      stack_.phase = trace_.names[region->name];
    return std::move(stack_);
  }

 private:
  size_t column_of(int64_t time_ns) const {
    const double share =
        static_cast<double>(time_ns - stack_.start_ns) / static_cast<double>(stack_.end_ns - stack_.start_ns);
    const double columns = static_cast<double>(stack_.total.size());
    return static_cast<size_t>(std::clamp(share * columns, 0.0, columns - 1));
  }

  int64_t column_end(size_t column) const {
    const double share = static_cast<double>(column + 1) / static_cast<double>(stack_.total.size());
    return stack_.start_ns + static_cast<int64_t>(share * static_cast<double>(stack_.end_ns - stack_.start_ns));
  }

  const trace::AllocatedBytesSample& highest_of(size_t begin, size_t end) const {
    const auto less = [](const trace::AllocatedBytesSample& a, const trace::AllocatedBytesSample& b) {
      return a.allocated_bytes < b.allocated_bytes;
    };
    return *std::max_element(trace_.memory.begin() + begin, trace_.memory.begin() + end, less);
  }

  void hold_until(int64_t time_ns) {
    for (; next_owned_ < trace_.owned.size() && trace_.owned[next_owned_].time_ns <= time_ns; ++next_owned_)
      held_[trace_.owned[next_owned_].owner] = trace_.owned[next_owned_].bytes;
  }

  void put(size_t column, const trace::AllocatedBytesSample& sample) {
    hold_until(sample.time_ns);
    fill(column, sample.allocated_bytes);
    if (sample.allocated_bytes <= stack_.peak_bytes) return;
    stack_.peak_bytes = sample.allocated_bytes;
    stack_.peak_ns = sample.time_ns;
    for (size_t i = 0; i < stack_.bands.size(); ++i) stack_.at_peak[i] = stack_.bands[i].bytes[column];
  }

  // Memory without an owner counts as work space.
  void fill(size_t column, int64_t total) {
    int64_t owned = 0;
    for (size_t i = 0; i < order_.size(); ++i) owned += stack_.bands[i].bytes[column] = held_[order_[i]];
    stack_.total[column] = std::max(total, owned);
    stack_.bands.back().bytes[column] = std::max<int64_t>(0, total - owned);
  }

  void drop_empty_bands() {
    for (size_t i = stack_.bands.size(); i-- > 0;) {
      const std::vector<int64_t>& bytes = stack_.bands[i].bytes;
      if (std::any_of(bytes.begin(), bytes.end(), [](int64_t held) { return held > 0; })) continue;
      stack_.bands.erase(stack_.bands.begin() + static_cast<std::ptrdiff_t>(i));
      stack_.at_peak.erase(stack_.at_peak.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const trace::Trace& trace_;
  std::vector<uint32_t> order_;
  std::vector<int64_t> held_;  // one per owner
  size_t next_owned_ = 0;
  StackedMemorySeries stack_;
};

}  // namespace

StackedMemorySeries stack_memory(const trace::Trace& trace, int columns) { return Stacker(trace, columns).stack(); }

}  // namespace memtune::report
