#include "core/plan/planner/block_recompute_graph.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/plan/rules/op_class.h"
#include "core/record/trace/private_save.h"

namespace memtune::planner {
namespace {

using plan::OpMemoryAccessGraph;
using plan::OpOutputAllocationNode;
using plan::ProgramFacts;
using plan::ProgramOpFacts;
using plan::RecordedStepCosts;

// Costs of an op from RecordedStepCosts, summed over its runs.
struct OpCost {
  double ms = 0;
  bool writes_outside = false;
  int64_t cast_bytes = 0, parameter_cast_bytes = 0, other_private_bytes = 0;

  bool casts() const { return other_private_bytes == 0; }  // its private tensors are all casts
};

std::vector<OpCost> op_costs(const ProgramFacts& facts, const RecordedStepCosts& costs) {
  std::vector<OpCost> by_op(facts.ops.size());
  for (const RecordedStepCosts::Run& run : costs.runs) {
    by_op.at(run.op).ms += run.ms;
    by_op[run.op].writes_outside |= run.writes_outside;
  }
  for (const RecordedStepCosts::Value& value : costs.values) {
    if (value.run < 0 || value.output != kPrivateSave) continue;
    OpCost& cost = by_op[costs.runs[value.run].op];
    (value.cast_of == RecordedStepCosts::kNoCast        ? cost.other_private_bytes
     : value.cast_of == RecordedStepCosts::kCastOfOther ? cost.parameter_cast_bytes
                                                        : cost.cast_bytes) += value.bytes;
  }
  return by_op;
}

// Memory rate of elementwise ops; 0: none ran.
double bytes_per_ms(const ProgramFacts& facts, const RecordedStepCosts& costs) {
  double bytes = 0, ms = 0;
  for (const RecordedStepCosts::Run& run : costs.runs) {
    if (facts.ops[run.op].op_class != plan::OpClass::elementwise || run.makes.empty()) continue;
    for (const auto* values : {&run.reads, &run.makes})
      for (const int value : *values) bytes += static_cast<double>(costs.values[value].bytes);
    ms += run.ms;
  }
  return ms > 0 ? bytes / ms : 0;
}

class Maker {
 public:
  Maker(const ProgramFacts& facts, const OpMemoryAccessGraph& graph, const RecordedStepCosts& costs,
        int64_t saved_min_bytes)
      : facts_(facts),
        graph_(graph),
        costs_(op_costs(facts, costs)),
        bytes_per_ms_(bytes_per_ms(facts, costs)),
        saved_min_bytes_(saved_min_bytes),
        graphs_(facts.blocks.size() + 2),
        position_(facts.ops.size()),
        here_(graph.memories().size(), -1) {}

  std::vector<BlockRecomputeGraph> make() {
    collect();
    for (size_t unit = 0; unit < graphs_.size(); ++unit) make(static_cast<int>(unit));
    return std::move(graphs_);
  }

 private:
  const OpOutputAllocationNode& at(int memory) const { return graph_.memories()[memory]; }

  int unit(int op) const {
    const ProgramOpFacts& fact = facts_.ops[op];
    return fact.block != plan::kOutside ? fact.block + 1 : fact.after_blocks ? static_cast<int>(graphs_.size()) - 1 : 0;
  }

  void collect() {
    readers_.resize(graph_.memories().size());
    own_.resize(graphs_.size());
    for (int op = 0; op < static_cast<int>(facts_.ops.size()); ++op) {
      position_[op] = static_cast<int>(graphs_[unit(op)].ops.size());
      graphs_[unit(op)].ops.push_back({facts_.ops[op].name, costs_[op].ms});
      for (const int memory : graph_.read_by(op)) readers_[memory].push_back(op);
    }
    for (int memory = 0; memory < static_cast<int>(here_.size()); ++memory) own_[unit(at(memory).op)].push_back(memory);
  }

  void make(int unit) {
    std::vector<BlockMemoryKeepOrRecomputeNode>& memories = graphs_[unit].memories;
    for (const int memory : own_[unit]) {
      here_[memory] = static_cast<int>(memories.size());
      memories.push_back(own(memory));
    }
    for (size_t i = 0; i < own_[unit].size(); ++i) link(unit, static_cast<int>(i));
    for (const BlockMemoryKeepOrRecomputeNode& memory : memories) here_[memory.number] = -1;
  }

  BlockMemoryKeepOrRecomputeNode own(int memory) const {
    BlockMemoryKeepOrRecomputeNode own{.number = memory, .bytes = at(memory).bytes, .wanted = at(memory).saved};
    own.offloadable_bytes = offloadable_bytes(memory);
    own.can_recompute = can_recompute(memory);
    own.first_user = own.last_user = position_[at(memory).op];
    if (!readers_[memory].empty() && !leaves(memory)) own.last_user = position_[readers_[memory].back()];
    return own;
  }

  int64_t offloadable_bytes(int memory) const {
    const OpCost& cost = costs_[at(memory).op];
    const int64_t stays = at(memory).output == kPrivateSave ? cost.parameter_cast_bytes : 0;
    return std::max<int64_t>(0, at(memory).bytes - stays);
  }

  // Sets the inputs and ops that recompute a memory.
  void link(int unit, int index) {
    const int memory = graphs_[unit].memories[index].number;
    if (!graphs_[unit].memories[index].can_recompute) return;
    std::vector<int> inputs, reruns;
    for (const int input : graph_.made_from(at(memory))) inputs.push_back(find(unit, input));
    if (is_cast(memory)) {
      reruns.push_back(static_cast<int>(graphs_[unit].ops.size()));
      graphs_[unit].ops.push_back({"cast", cast_ms(memory)});
    } else {
      reruns.push_back(position_[at(memory).op]);
      for (const int writer : at(memory).writers) reruns.push_back(position_[writer]);
    }
    graphs_[unit].memories[index].inputs = std::move(inputs);
    graphs_[unit].memories[index].reruns = std::move(reruns);
  }

  int find(int unit, int memory) {
    if (here_[memory] < 0) {
      here_[memory] = static_cast<int>(graphs_[unit].memories.size());
      const int64_t blocks = blocks_that_read(memory), bytes = at(memory).saved ? 0 : at(memory).bytes / blocks;
      BlockMemoryKeepOrRecomputeNode& input =
          graphs_[unit].memories.emplace_back(BlockMemoryKeepOrRecomputeNode{memory, bytes});
      if (blocks == 1) input.offloadable_bytes = std::min(bytes, offloadable_bytes(memory));
    }
    return here_[memory];
  }

  int64_t blocks_that_read(int memory) const {
    int64_t blocks = 0;
    int last = unit(at(memory).op);
    for (const int reader : readers_[memory])
      if (facts_.ops[reader].block != plan::kOutside && unit(reader) != last) last = unit(reader), ++blocks;
    return std::max<int64_t>(1, blocks);
  }

  bool leaves(int memory) const {
    const int home = unit(at(memory).op);
    return std::any_of(readers_[memory].begin(), readers_[memory].end(),
                       [&](int reader) { return unit(reader) != home; });
  }

  // A matmul's private tensors are casts of its inputs. For other ops see the costs.
  bool is_cast(int memory) const {
    const OpCost& cost = costs_[at(memory).op];
    if (at(memory).output != kPrivateSave || !cost.casts()) return false;
    return cost.cast_bytes + cost.parameter_cast_bytes > 0 || plan::is_matmul(facts_.ops[at(memory).op]);
  }

  // A cast reads twice as many bytes as it writes.
  double cast_ms(int memory) const {
    return bytes_per_ms_ > 0 ? 3 * static_cast<double>(at(memory).bytes) / bytes_per_ms_ : 0;
  }

  bool can_recompute(int memory) const {
    const OpOutputAllocationNode& made = at(memory);
    if (leaves(memory) || made.crosses) return false;
    if (made.output == kPrivateSave && (made.bytes < saved_min_bytes_ || facts_.ops[made.op].in_place)) return false;
    const auto can_rerun = [&](int op) { return this->can_rerun(op, memory); };
    return can_rerun(made.op) && std::all_of(made.writers.begin(), made.writers.end(), can_rerun);
  }

  // An input that is overwritten later would have to be copied for a recomputation. `itself` is exempt, because the
  // recomputation creates it.
  bool can_rerun(int op, int itself) const {
    if (facts_.ops[op].op_class == plan::OpClass::collective || costs_[op].writes_outside) return false;
    const std::vector<int>& read = graph_.read_by(op);
    return std::all_of(read.begin(), read.end(),
                       [&](int input) { return input == itself || at(input).last_write() < op; });
  }

  const ProgramFacts& facts_;
  const OpMemoryAccessGraph& graph_;
  std::vector<OpCost> costs_;
  double bytes_per_ms_;
  int64_t saved_min_bytes_;
  std::vector<BlockRecomputeGraph> graphs_;
  std::vector<int> position_;              // by op: index within its block
  std::vector<int> here_;                  // by memory: index in the graph being built; -1: not in it
  std::vector<std::vector<int>> readers_;  // by memory: ops
  std::vector<std::vector<int>> own_;      // by block: memories
};

auto form(const BlockMemoryKeepOrRecomputeNode& m) {
  return std::tie(m.bytes, m.offloadable_bytes, m.wanted, m.can_recompute, m.inputs, m.reruns, m.first_user,
                  m.last_user);
}

}  // namespace

bool BlockRecomputeGraph::has_same_structure(const BlockRecomputeGraph& other) const {
  return std::equal(memories.begin(), memories.end(), other.memories.begin(), other.memories.end(),
                    [](const BlockMemoryKeepOrRecomputeNode& a, const BlockMemoryKeepOrRecomputeNode& b) {
                      return form(a) == form(b);
                    }) &&
         std::equal(ops.begin(), ops.end(), other.ops.begin(), other.ops.end(),
                    [](const BlockOpNameAndTime& a, const BlockOpNameAndTime& b) { return a.name == b.name; });
}

std::vector<BlockRecomputeGraph> block_graphs(const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                                              const RecordedStepCosts& costs, int64_t saved_min_bytes) {
  return Maker(facts, graph, costs, saved_min_bytes).make();
}

}  // namespace memtune::planner
