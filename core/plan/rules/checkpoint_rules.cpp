#include "core/plan/rules/checkpoint_rules.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/rules/cheap_rule.h"
#include "core/plan/rules/op_class.h"

namespace memtune::plan {
namespace {

// Readers and writers of each memory, through any view; indexed by ProgramFacts::owner.
class Readers {
 public:
  explicit Readers(const ProgramFacts& facts) : facts_(facts), reads_(facts.ops.size()), writes_(facts.ops.size()) {
    for (int i = 0; i < static_cast<int>(facts.ops.size()); ++i) {
      const ProgramOpFacts& op = facts.ops[i];
      ordered_ &= op.name != "prim::If" && op.name != "prim::Loop";
      for (const int input : op.inputs)
        if (const int owner = facts.owner[input]; owner >= 0) reads_[owner].push_back(i);
      for (const int output : op.outputs)
        if (const int owner = facts.owner[output]; op.in_place && owner >= 0) writes_[owner].push_back(i);
    }
  }

  // Whether one of the other blocks that `counts` accepts reads an output of the op before an in-place op overwrites
  // it. The owner of an output may be another op: tensors in a list, or from a branch, have the owner of the first one.
  bool elsewhere(int op, const std::function<bool(int block)>& counts) const {
    return std::ranges::any_of(blocks_of(op), counts);
  }

  // Those other blocks; kOutside may be among them.
  std::set<int> blocks_of(int op) const {
    const ProgramOpFacts& fact = facts_.ops[op];
    std::set<int> blocks;
    for (const int output : fact.outputs) {
      const int owner = facts_.owner[output];
      if (owner < 0) continue;
      const int overwritten = next_write(owner, op);
      for (const int reader : reads_[owner])
        if (!ordered_ || (reader > op && reader <= overwritten)) blocks.insert(facts_.ops[reader].block);
    }
    blocks.erase(fact.block);
    return blocks;
  }

 private:
  int next_write(int owner, int op) const {
    const auto next = std::upper_bound(writes_[owner].begin(), writes_[owner].end(), op);
    return next == writes_[owner].end() ? static_cast<int>(facts_.ops.size()) : *next;
  }

  const ProgramFacts& facts_;
  bool ordered_ = true;  // ops run once each, in the order of the list
  std::vector<std::vector<int>> reads_, writes_;
};

// The save list of checkpoint:op, resolved for a program: op classes ("matmul") and op names.
class SaveList {
 public:
  SaveList(const std::vector<std::string>& names, const ProgramFacts& facts) {
    static const std::set<std::string> classes = {"attention", "matmul", "matmul-all"};
    std::set<std::string> ops;
    for (const ProgramOpFacts& op : facts.ops)
      if (op.block != kOutside && makes_memory(op)) ops.insert(strip_op_namespace(op.name));
    for (const std::string& name : names) {
      if (classes.count(name))
        classes_.insert(name);
      else if (ops.count(strip_op_namespace(name)))
        ops_.insert(strip_op_namespace(name));
      else
        refuse(name, classes, ops);
    }
  }

  // The class "matmul" keeps every other matmul of a block; the rest is cheap enough to recompute.
  bool has(const ProgramOpFacts& op, int matmul) const {
    const bool of_class = (is_matmul(op) && classes_.count("matmul-all")) ||
                          (is_matmul(op) && classes_.count("matmul") && matmul % 2 == 0) ||
                          (is_attention(op) && classes_.count("attention"));
    return of_class || ops_.count(strip_op_namespace(op.name));
  }

 private:
  [[noreturn]] static void refuse(const std::string& name, const std::set<std::string>& classes,
                                  const std::set<std::string>& ops) {
    std::vector<std::string> known(ops.begin(), ops.end());
    if (name == strip_op_namespace(name)) known.insert(known.begin(), classes.begin(), classes.end());
    throw UsageError("checkpoint:op: save: " + unknown_name("op", strip_op_namespace(name), known));
  }

  std::set<std::string> classes_;
  std::set<std::string> ops_;  // without "aten::"
};

// Every n-th of the named blocks, starting with the first.
std::vector<bool> covered_blocks(const StrategyPart& part, const ProgramFacts& facts) {
  const BlockSet& blocks = part.blocks();
  const bool first = part.info().preset && part.info().preset->layers_first;
  const int64_t every = part.has(StrategyParameterId::every) ? part.count(StrategyParameterId::every) : part.every();
  std::vector<bool> covered(facts.blocks.size());
  int64_t named = 0;
  for (size_t i = 0; i < covered.size(); ++i)
    if (blocks.contains(static_cast<int>(i)) &&
        (!first || static_cast<int>(i) < part.count(StrategyParameterId::layers)))
      covered[i] = named++ % every == 0;
  return covered;
}

int segment_of(const StrategyPart& part) {
  if (part.info().preset) return part.info().preset->layers_together ? part.count(StrategyParameterId::layers) : 1;
  return part.has(StrategyParameterId::segment) ? part.count(StrategyParameterId::segment) : 1;
}

class Checkpoint {
 public:
  Checkpoint(const StrategyPart& part, const ProgramFacts& facts, ActivationPlacementDraft& draft)
      : facts_(facts),
        covered_(covered_blocks(part, facts)),
        segment_(segment_of(part)),
        readers_(facts),
        draft_(draft) {}

  const std::vector<bool>& covered() const { return covered_; }

  void place_inputs(TensorPlacement place) {
    const auto counts = [this](int block) { return covers(block) && !inside(block); };
    for (size_t i = 0; i < facts_.ops.size(); ++i)
      if (makes_values(facts_.ops[i]) && readers_.elsewhere(static_cast<int>(i), counts))
        draft_.fill(static_cast<int>(i), place, TensorPlacement::keep);
  }

  void hand_over(const CheckpointInputOffloadPolicy& input_policy) {
    const int end = static_cast<int>(facts_.blocks.size()) - input_policy.keep_last;
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      if (!makes_values(facts_.ops[i])) continue;
      std::set<int> takers = readers_.blocks_of(static_cast<int>(i));
      std::erase_if(takers, [this](int block) { return !covers(block) || inside(block); });
      if (takers.size() == 1 && *takers.begin() < end)
        draft_.fill(static_cast<int>(i), TensorPlacement::host, TensorPlacement::keep);
    }
  }

  // Recomputes everything except what `saves` keeps and what leaves its block. `matmul` is the number of a matmul
  // within its block.
  void recompute(const std::function<bool(const ProgramOpFacts& op, int matmul)>& saves) {
    std::vector<int> matmuls(facts_.blocks.size(), 0);
    std::set<int> saved_owners;  // an in-place write into a kept value is kept too
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      const ProgramOpFacts& op = facts_.ops[i];
      if (!covers(op.block)) continue;
      const int matmul = is_matmul(op) ? matmuls[op.block]++ : 0;
      if (!makes_values(op)) continue;
      const int owner = facts_.owner[op.outputs[0]];
      const bool saved = saves(op, matmul) || (op.in_place && saved_owners.count(owner));
      if (saved) saved_owners.insert(owner);
      const bool stays = saved || readers_.elsewhere(static_cast<int>(i), [this](int block) { return !inside(block); });
      draft_.fill(static_cast<int>(i), stays ? TensorPlacement::keep : TensorPlacement::recompute,
                  saved ? TensorPlacement::keep : TensorPlacement::recompute);
    }
  }

 private:
  bool covers(int block) const { return block != kOutside && covered_[block]; }

  // Whether the block is within a segment but is not its first. Its inputs are then recomputed from those of the
  // first. A gap between covered blocks starts a new segment.
  bool inside(int block) const {
    int first = block;
    while (covers(first) && first > 0 && covers(first - 1)) --first;
    return covers(block) && (block - first) % segment_ != 0;
  }

  const ProgramFacts& facts_;
  std::vector<bool> covered_;
  int segment_;
  Readers readers_;
  ActivationPlacementDraft& draft_;
};

// Counts linear layers by the ops that the dispatcher sees and keeps every other one. Keeps other expensive ops.
class EveryOtherLinear {
 public:
  bool operator()(const ProgramOpFacts& op, int) {
    if (std::exchange(block_, op.block) != op.block) linear_ = 0;
    if (strip_op_namespace(op.name) == "linear" || strip_op_namespace(op.name) == "mm") return linear_++ % 2 == 0;
    return is_matmul(op) || is_attention(op) || strip_op_namespace(op.name) == "max" ||
           strip_op_namespace(op.name) == "topk";
  }

 private:
  int block_ = kOutside, linear_ = 0;
};

void check_numbers_of_blocks(const StrategyPart& part, const ProgramFacts& facts) {
  const auto blocks = static_cast<int64_t>(facts.blocks.size());
  for (const StrategyParameterId parameter : {StrategyParameterId::every, StrategyParameterId::layers})
    if (part.has(parameter) && part.count(parameter) > blocks)
      throw UsageError(std::string(part.info().name) + ": " + part.setting(parameter) +
                       " must be at most the number of blocks, " + std::to_string(blocks));
  if (part.every() > blocks)
    throw UsageError("checkpoint:every=" + std::to_string(part.every()) + ": n must be at most the number of blocks, " +
                     std::to_string(blocks));
}

}  // namespace

void place_checkpoint(const StrategyPart& part, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                      int64_t saved_min_bytes, CheckpointInputOffloadPolicy input_policy,
                      ActivationPlacementDraft& draft) {
  check_numbers_of_blocks(part, facts);
  Checkpoint checkpoint(part, facts, draft);
  const TensorPlacement inputs =
      part.has(StrategyParameterId::inputs) ? part.place(StrategyParameterId::inputs) : TensorPlacement::keep;
  if (inputs != TensorPlacement::keep)
    checkpoint.place_inputs(inputs);
  else if (input_policy.offloads_activations)
    checkpoint.hand_over(input_policy);
  if (part.info().preset && part.info().preset->every_linear)
    checkpoint.recompute(EveryOtherLinear());
  else if (part.kind() == StrategyKind::checkpoint_op)
    checkpoint.recompute([save = SaveList(part.names(StrategyParameterId::save), facts)](
                             const ProgramOpFacts& op, int matmul) { return save.has(op, matmul); });
  else if (part.kind() != StrategyKind::checkpoint_cheap)
    checkpoint.recompute([](const ProgramOpFacts&, int) { return false; });
  else if (!graph.measured())
    checkpoint.recompute([](const ProgramOpFacts& op, int) { return !is_cheap(op); });
  else
    place_cheap(checkpoint.covered(), facts, graph, saved_min_bytes, draft);
}

}  // namespace memtune::plan
