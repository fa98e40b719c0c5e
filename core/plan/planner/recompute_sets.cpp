#include "core/plan/planner/recompute_sets.h"

#include <algorithm>
#include <cmath>

#include "core/plan/rules/min_cut.h"

namespace memtune::planner {
namespace {

using plan::MinCut;

// The sum of two scaled costs, times a weight, fits in 60 bits.
constexpr int64_t kMaxUnits = int64_t{1} << 28;

// Scales `amounts` to whole numbers, whose sum is not far above kMaxUnits.
std::vector<int64_t> scaled(const std::vector<double>& amounts) {
  double sum = 0;
  for (const double amount : amounts) sum += amount;
  const double unit = std::max(1.0, sum / kMaxUnits);
  std::vector<int64_t> units;
  for (const double amount : amounts) units.push_back(std::llround(amount / unit));
  return units;
}

class PriceSweep {
 public:
  explicit PriceSweep(const BlockRecomputeGraph& block) : block_(block) {
    std::vector<double> bytes, ns;
    for (const BlockMemoryKeepOrRecomputeNode& memory : block.memories)
      bytes.push_back(static_cast<double>(memory.bytes));
    for (const BlockOpNameAndTime& op : block.ops) ns.push_back(std::max(0.0, op.ms) * 1e6);
    bytes_ = scaled(bytes);
    time_ = scaled(ns);
  }

  std::vector<BlockRecomputeOption> sweep() {
    constexpr int64_t kMore = 2 * kMaxUnits;  // more than any sum of amounts
    const Point fastest = solve(1, kMore), smallest = solve(kMore, 1);
    points_.push_back(fastest);
    if (smallest.bytes < fastest.bytes) {
      between(fastest, smallest);
      points_.push_back(smallest);
    }
    std::vector<BlockRecomputeOption> sets;
    for (Point& point : points_) sets.push_back(std::move(point.set));
    return sets;
  }

 private:
  struct Point {
    int64_t bytes = 0, time = 0;  // scaled
    BlockRecomputeOption set;
  };

  // Solves at the price at which the two cost the same.
  void between(const Point& left, const Point& right) {
    const int64_t price = right.time - left.time, rate = left.bytes - right.bytes;
    const Point middle = solve(price, rate);
    if (price * middle.bytes + rate * middle.time >= price * left.bytes + rate * left.time) return;
    between(left, middle);
    points_.push_back(middle);
    between(middle, right);
  }

  // Two nodes per memory, one per op. The source side has what is available, what is recomputed, and the ops that run.
  int there(int memory) const { return 2 * memory; }
  int recomputed(int memory) const { return 2 * memory + 1; }
  int rerun(int op) const { return 2 * static_cast<int>(block_.memories.size()) + op; }
  int source() const { return rerun(static_cast<int>(block_.ops.size())); }
  int sink() const { return source() + 1; }

  Point solve(int64_t price, int64_t rate) const {
    MinCut cut(sink() + 1);
    for (int memory = 0; memory < static_cast<int>(block_.memories.size()); ++memory) add_edges(memory, price, cut);
    for (size_t op = 0; op < time_.size(); ++op) cut.add_edge(rerun(static_cast<int>(op)), sink(), rate * time_[op]);
    cut.solve(source(), sink());
    return point(cut);
  }

  void add_edges(int index, int64_t price, MinCut& cut) const {
    const BlockMemoryKeepOrRecomputeNode& memory = block_.memories[index];
    if (memory.wanted) cut.add_edge(source(), there(index), MinCut::kNever);
    if (!memory.can_recompute) return cut.add_edge(there(index), sink(), price * bytes_[index]);
    cut.add_edge(there(index), recomputed(index), price * bytes_[index]);
    for (const int input : memory.inputs) cut.add_edge(recomputed(index), there(input), MinCut::kNever);
    for (const int op : memory.reruns) cut.add_edge(recomputed(index), rerun(op), MinCut::kNever);
  }

  // Follows only what leads to a wanted memory: what costs nothing may be on either side of the cut.
  Point point(const MinCut& cut) const {
    const size_t count = block_.memories.size();
    Point point{.set = {std::vector<bool>(count), std::vector<bool>(count)}};
    std::vector<int> queue;
    std::vector<bool> reruns(block_.ops.size());
    for (size_t i = 0; i < count; ++i)
      if (block_.memories[i].wanted) queue.push_back(static_cast<int>(i));
    for (size_t i = 0; i < queue.size(); ++i) visit(queue[i], cut, point, queue, reruns);
    return point;
  }

  void visit(int index, const MinCut& cut, Point& point, std::vector<int>& queue, std::vector<bool>& reruns) const {
    const BlockMemoryKeepOrRecomputeNode& memory = block_.memories[index];
    if (point.set.kept[index] || point.set.recomputed[index]) return;
    if (!memory.can_recompute || cut.on_sink_side(recomputed(index))) {
      point.set.kept[index] = true;
      point.set.bytes += memory.bytes;
      point.bytes += bytes_[index];
      return;
    }
    point.set.recomputed[index] = true;
    queue.insert(queue.end(), memory.inputs.begin(), memory.inputs.end());
    for (const int op : memory.reruns) {
      if (reruns[op]) continue;
      reruns[op] = true;
      point.set.ms += block_.ops[op].ms;
      point.time += time_[op];
    }
  }

  const BlockRecomputeGraph& block_;
  std::vector<int64_t> bytes_, time_;  // scaled
  std::vector<Point> points_;
};

}  // namespace

std::vector<BlockRecomputeOption> recompute_sets(const BlockRecomputeGraph& block) { return PriceSweep(block).sweep(); }

}  // namespace memtune::planner
