// Which ops of a block to recompute for each amount of memory: compared with all labelings of small random blocks, and
// with the expected sets of a decoder block.
#include "core/plan/planner/recompute_sets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "tests/planner/costs.h"

namespace memtune::recompute_sets_test {

using namespace memtune;
using namespace memtune::planner;
using namespace memtune::test;
using plan::OpMemoryAccessGraph;
using plan::OpOutputAllocationNode;
using plan::RecordedStepCosts;

namespace {

using Point = std::pair<int64_t, double>;  // bytes kept, ms of recomputation

// Lists all labelings by the rules alone: each memory is absent, kept or recomputed.
class Labelings {
 public:
  Labelings(const ProgramFacts& facts, const OpMemoryAccessGraph& graph, const std::vector<double>& ms)
      : facts_(facts), graph_(graph), ms_(ms), label_(graph.memories().size()) {}

  std::vector<Point> points() {
    label_from(0);
    return points_;
  }

 private:
  enum Label { none, kept, recomputed };
  const OpOutputAllocationNode& at(int memory) const { return graph_.memories()[memory]; }
  bool in_block(int memory) const { return facts_.ops[at(memory).op].block == 0; }
  bool is_free(int memory) const { return !in_block(memory) && at(memory).saved; }

  void label_from(int memory) {
    if (memory == static_cast<int>(label_.size())) return add();
    for (const Label label : {none, kept, recomputed}) {
      label_[memory] = label;
      if (is_allowed(memory)) label_from(memory + 1);
    }
  }

  bool is_allowed(int memory) const {
    if (label_[memory] == recomputed) return can_recompute(memory);
    return label_[memory] == kept || !at(memory).saved || !in_block(memory);
  }

  bool can_recompute(int memory) const {
    if (!in_block(memory) || at(memory).crosses) return false;
    for (const int op : ops(memory)) {
      if (facts_.ops[op].op_class == plan::OpClass::collective) return false;
      for (const int input : graph_.read_by(op))
        if (input != memory && at(input).last_write() >= op) return false;
    }
    return true;
  }

  std::vector<int> ops(int memory) const {
    std::vector<int> ops = at(memory).writers;
    ops.push_back(at(memory).op);
    return ops;
  }

  void add() {
    int64_t bytes = 0;
    std::set<int> reruns;
    for (int memory = 0; memory < static_cast<int>(label_.size()); ++memory) {
      if (label_[memory] == kept && !is_free(memory)) bytes += at(memory).bytes;
      if (label_[memory] != recomputed) continue;
      for (const int input : graph_.made_from(at(memory)))
        if (label_[input] == none && !is_free(input)) return;
      for (const int op : ops(memory)) reruns.insert(op);
    }
    double ms = 0;
    for (const int op : reruns) ms += ms_[op];
    points_.emplace_back(bytes, ms);
  }

  const ProgramFacts& facts_;
  const OpMemoryAccessGraph& graph_;
  const std::vector<double>& ms_;
  std::vector<Label> label_;
  std::vector<Point> points_;
};

// Returns the corners of the lower convex hull, the fastest first.
std::vector<Point> hull_of(std::vector<Point> points) {
  std::map<int64_t, double> best;
  for (const auto& [bytes, ms] : points) {
    const auto [at, is_new] = best.try_emplace(bytes, ms);
    at->second = std::min(at->second, ms);
  }
  std::vector<Point> hull;  // the fewest bytes first
  for (const Point point : best) {
    if (!hull.empty() && point.second >= hull.back().second) continue;
    const auto is_above = [&](Point a, Point b) {  // whether b is on or above the line from a to `point`
      return (b.second - a.second) * static_cast<double>(point.first - a.first) >=
             (point.second - a.second) * static_cast<double>(b.first - a.first);
    };
    while (hull.size() > 1 && is_above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(point);
  }
  std::reverse(hull.begin(), hull.end());
  return hull;
}

// A block of seven ops after an op outside of blocks. Some ops make two memories, write in place, draw random numbers
// or communicate.
ProgramFacts random_block(std::mt19937& random) {
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  Builder builder;
  builder.facts.blocks = {{"a"}};
  std::vector<int> values;
  builder.op("aten::relu", {builder.input()});
  values.push_back(builder.measured(1 + draw(5), draw(1) == 0));
  builder.block = 0;
  const auto any = [&] { return values[draw(static_cast<int>(values.size()) - 1)]; };
  for (int i = 0; i < 7; ++i) {
    const int kind = draw(11);
    if (kind == 0 && i > 0) {
      builder.alias("aten::relu_", {any(), any()});
      values.push_back(builder.measured(0, false));
      continue;
    }
    std::vector<int> inputs = {any()};
    if (draw(1) == 0) inputs.push_back(any());
    values.push_back(builder.op(kind == 1 ? "c10d::all_reduce" : kind == 2 ? "aten::dropout" : "aten::linear", inputs));
    builder.last().random = kind == 2;
    if (kind == 1) builder.last().op_class = plan::OpClass::collective;
    builder.measured(1 + draw(8), draw(1) == 0);
    if (kind == 3 && i < 6) {  // a second output, and one op fewer
      builder.facts.owner.push_back(builder.facts.owner[values.back()]);
      values.push_back(static_cast<int>(builder.facts.owner.size()) - 1);
      builder.last().outputs.push_back(values.back());
      builder.last().output_bytes.push_back(1 + draw(8));
      builder.last().output_saved.push_back(draw(1) == 0);
      ++i;
    }
  }
  if (draw(2) == 0) {  // a value leaves the block
    builder.block = -1;
    builder.after = true;
    builder.op("aten::mse_loss", {any()});
    builder.measured(1, false);
  }
  return builder.facts;
}

// Prints points as "12:0 7:2.5 ".
std::string text(const std::vector<Point>& points) {
  std::ostringstream out;
  for (const auto& [bytes, ms] : points) out << bytes << ":" << ms << " ";
  return out.str();
}

std::vector<Point> swept(const ProgramFacts& facts, const OpMemoryAccessGraph& graph, const RecordedStepCosts& costs) {
  std::vector<Point> points;
  for (const BlockRecomputeOption& set : recompute_sets(block_graphs(facts, graph, costs, 0)[1]))
    points.emplace_back(set.bytes, set.ms);
  return points;
}

// Returns the ops of a block that the sets recompute, one line per set, such as "0 11 ".
std::string recomputed(const BlockRecomputeGraph& block, const OpMemoryAccessGraph& graph) {
  std::string lines;
  for (const BlockRecomputeOption& set : recompute_sets(block)) {
    for (size_t i = 0; i < set.recomputed.size(); ++i)
      if (set.recomputed[i]) lines += std::to_string(graph.memories()[block.memories[i].number].op) + " ";
    lines += "\n";
  }
  return lines;
}

std::string recomputed(const ProgramFacts& facts, const RecordedStepCosts& costs, int block = 0) {
  const OpMemoryAccessGraph graph(facts);
  return recomputed(block_graphs(facts, graph, costs, kMiB)[block + 1], graph);
}

std::string recomputed(const Builder& builder) {
  return recomputed(builder.facts, costs_of(builder.facts, std::vector<double>(builder.facts.ops.size(), 1)));
}

}  // namespace

TEST_CASE("the sets of random blocks are the corners of the lower hull of all labelings") {
  std::mt19937 random(5);
  size_t corners = 0;
  for (int i = 0; i < 400; ++i) {
    const ProgramFacts facts = random_block(random);
    const OpMemoryAccessGraph graph(facts);
    std::vector<double> ms(facts.ops.size());
    for (double& one : ms) one = std::uniform_int_distribution<int>(1, 9)(random);
    CAPTURE(i);
    const std::vector<Point> expected = hull_of(Labelings(facts, graph, ms).points());
    REQUIRE(text(swept(facts, graph, costs_of(facts, ms))) == text(expected));
    corners += expected.size();
  }
  CHECK(corners > 800);  // blocks with a choice
}

TEST_CASE("a decoder block recomputes norms and silu and product first and then projections and then all") {
  const ProgramFacts facts = decoder(3);
  CHECK(recomputed(facts, costs_of(facts, decoder_ms(facts))) ==
        "\n"
        "1 12 \n"
        "1 12 15 16 \n"
        "1 7 8 12 15 16 \n"
        "1 7 8 12 13 14 15 16 \n"
        "1 4 7 8 12 13 14 15 16 \n"
        "1 2 4 5 7 8 10 11 12 13 14 15 16 \n"
        "1 2 3 4 5 6 7 8 10 11 12 13 14 15 16 \n"
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 \n");
}

TEST_CASE("a root that is kept only for recomputation is charged to all blocks that use it") {
  const auto program = [](int64_t root, int blocks) {
    Builder builder;
    const int in = builder.op("aten::embedding", {builder.input()});
    builder.measured(root, false);
    for (builder.block = 0; builder.block < blocks; ++builder.block) {
      builder.facts.blocks.push_back({"layers." + std::to_string(builder.block)});
      builder.op("aten::relu", {in});
      builder.measured(8, true);
    }
    return recomputed(builder);
  };
  CHECK(program(9, 1) == "\n");
  CHECK(program(7, 1) == "\n1 \n");
  CHECK(program(9, 2) == "\n1 \n");
}

TEST_CASE("an op that writes outside of the step is not recomputed") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int in = builder.op("aten::linear", {builder.input()});
  builder.measured(1, true);
  builder.op("aten::batch_norm", {in});
  builder.measured(8, true);
  RecordedStepCosts costs = costs_of(builder.facts, {1, 1});
  CHECK(recomputed(builder.facts, costs) == "\n1 \n0 1 \n");
  costs.runs[1].writes_outside = true;
  CHECK(recomputed(builder.facts, costs) == "\n0 \n");
}

}  // namespace memtune::recompute_sets_test
