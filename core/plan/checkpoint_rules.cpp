#include "core/plan/checkpoint_rules.h"

#include <algorithm>
#include <functional>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/cheap_rule.h"
#include "core/plan/op_class.h"

namespace memtune::plan {
namespace {

using config::OpFacts;
using config::Parameter;
using config::Place;
using config::ProgramFacts;
using config::StrategyKind;
using config::StrategyPart;

// For each number in ProgramFacts::owner, the blocks (or kOutside) that use that memory under any name.
std::vector<std::set<int>> blocks_by_owner(const ProgramFacts& facts) {
  std::vector<std::set<int>> used(facts.ops.size());
  for (const OpFacts& op : facts.ops)
    for (int input : op.inputs)
      if (const int owner = facts.owner[input]; owner >= 0) used[owner].insert(op.block);
  return used;
}

// An op's own number need not be its outputs' owner: what meets in a list or a branch has the first one's.
bool used_elsewhere(const OpFacts& op, const ProgramFacts& facts, const std::vector<std::set<int>>& by_owner,
                    const std::function<bool(int block)>& counts) {
  const auto elsewhere = [&](int block) { return block != op.block && counts(block); };
  return std::any_of(op.outputs.begin(), op.outputs.end(), [&](int output) {
    const int owner = facts.owner[output];
    return owner >= 0 && std::any_of(by_owner[owner].begin(), by_owner[owner].end(), elsewhere);
  });
}

// The save list of checkpoint:op, resolved against a program: classes of ops ("matmul") and ops by name.
class SaveList {
 public:
  SaveList(const std::vector<std::string>& names, const ProgramFacts& facts) {
    static const std::set<std::string> classes = {"attention", "matmul", "matmul-all"};
    std::set<std::string> ops;
    for (const OpFacts& op : facts.ops)
      if (op.block != kOutside && makes_memory(op)) ops.insert(bare(op.name));
    for (const std::string& name : names) {
      if (classes.count(name))
        classes_.insert(name);
      else if (ops.count(bare(name)))
        ops_.insert(bare(name));
      else
        refuse(name, classes, ops);
    }
  }

  // Every second matmul of a block is cheap enough to make again.
  bool has(const OpFacts& op, int matmul) const {
    const bool of_class = (is_matmul(op) && classes_.count("matmul-all")) ||
                          (is_matmul(op) && classes_.count("matmul") && matmul % 2 == 0) ||
                          (is_attention(op) && classes_.count("attention"));
    return of_class || ops_.count(bare(op.name));
  }

 private:
  [[noreturn]] static void refuse(const std::string& name, const std::set<std::string>& classes,
                                  const std::set<std::string>& ops) {
    std::vector<std::string> known(ops.begin(), ops.end());
    if (name == bare(name)) known.insert(known.begin(), classes.begin(), classes.end());
    throw UsageError("checkpoint:op: save: " + unknown_name("op", bare(name), known));
  }

  std::set<std::string> classes_;
  std::set<std::string> ops_;  // without "aten::"
};

// Every n-th of the blocks that are named, from the first on.
std::vector<bool> covered_blocks(const StrategyPart& part, const ProgramFacts& facts) {
  const config::BlockRanges& blocks = part.blocks();
  std::vector<bool> covered(facts.blocks.size());
  int64_t named = 0;
  for (size_t i = 0; i < covered.size(); ++i)
    if (blocks.contains(static_cast<int>(i))) covered[i] = named++ % part.every() == 0;
  return covered;
}

class Checkpoint {
 public:
  Checkpoint(const StrategyPart& part, const ProgramFacts& facts, Draft& draft)
      : facts_(facts),
        covered_(covered_blocks(part, facts)),
        segment_(part.has(Parameter::segment) ? part.count(Parameter::segment) : 1),
        by_owner_(blocks_by_owner(facts)),
        draft_(draft) {}

  const std::vector<bool>& covered() const { return covered_; }

  void place_inputs(Place place) {
    const auto counts = [this](int block) { return covers(block) && !inside(block); };
    for (size_t i = 0; i < facts_.ops.size(); ++i)
      if (makes_values(facts_.ops[i]) && used_elsewhere(facts_.ops[i], facts_, by_owner_, counts))
        draft_.fill(static_cast<int>(i), place, Place::keep);
  }

  // All but what `saves` says and what leaves its block. `matmul` is the number of a matmul within its block.
  void recompute(const std::function<bool(const OpFacts& op, int matmul)>& saves) {
    std::vector<int> matmuls(facts_.blocks.size(), 0);
    std::set<int> saved_owners;  // what an in-place op writes into a saved value is saved with it
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      const OpFacts& op = facts_.ops[i];
      if (!covers(op.block)) continue;
      const int matmul = is_matmul(op) ? matmuls[op.block]++ : 0;
      if (!makes_values(op)) continue;
      const int owner = facts_.owner[op.outputs[0]];
      const bool saved = saves(op, matmul) || (op.in_place && saved_owners.count(owner));
      if (saved) saved_owners.insert(owner);
      const bool stays = saved || used_elsewhere(op, facts_, by_owner_, [this](int block) { return !inside(block); });
      draft_.fill(static_cast<int>(i), stays ? Place::keep : Place::recompute, saved ? Place::keep : Place::recompute);
    }
  }

 private:
  bool covers(int block) const { return block != kOutside && covered_[block]; }

  // Within a segment: the block's inputs are made again, from those of the first. Segments begin anew behind a gap.
  bool inside(int block) const {
    int first = block;
    while (covers(first) && first > 0 && covers(first - 1)) --first;
    return covers(block) && (block - first) % segment_ != 0;
  }

  const ProgramFacts& facts_;
  std::vector<bool> covered_;
  int segment_;
  std::vector<std::set<int>> by_owner_;
  Draft& draft_;
};

void check_blocks(const StrategyPart& part, const ProgramFacts& facts) {
  const auto blocks = static_cast<int64_t>(facts.blocks.size());
  if (part.every() > blocks)
    throw UsageError("checkpoint:every=" + std::to_string(part.every()) + ": n must be at most the number of blocks, " +
                     std::to_string(blocks));
}

}  // namespace

void place_checkpoint(const StrategyPart& part, const ProgramFacts& facts, const MemoryGraph& graph,
                      int64_t saved_min_bytes, Draft& draft) {
  check_blocks(part, facts);
  Checkpoint checkpoint(part, facts, draft);
  if (const Place inputs = part.place(Parameter::inputs); inputs != Place::keep) checkpoint.place_inputs(inputs);
  if (part.kind() == StrategyKind::checkpoint_op)
    checkpoint.recompute([save = SaveList(part.names(Parameter::save), facts)](const OpFacts& op, int matmul) {
      return save.has(op, matmul);
    });
  else if (part.kind() != StrategyKind::checkpoint_cheap)
    checkpoint.recompute([](const OpFacts&, int) { return false; });
  else if (!graph.measured())
    checkpoint.recompute([](const OpFacts& op, int) { return !is_cheap(op); });
  else
    place_cheap(checkpoint.covered(), facts, graph, saved_min_bytes, draft);
}

}  // namespace memtune::plan
