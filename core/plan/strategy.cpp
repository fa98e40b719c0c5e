#include "core/plan/strategy.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/strategy_spec.h"

namespace memtune::plan {
namespace {

using config::OpFacts;
using config::OpPlacement;
using config::Place;
using config::Plan;
using config::ProgramFacts;

constexpr int kOutside = -1;  // the "block" of an op that is in none

// prim ops only bind, pack and branch: what they hand on was made by others. A "view" may copy (reshape, contiguous),
// and an in-place op makes the memory's next value: both have a place of their own.
bool makes_values(const OpFacts& op) { return !op.name.starts_with("prim::") && !op.outputs.empty(); }
bool makes_memory(const OpFacts& op) { return makes_values(op) && !op.view && !op.in_place; }

// For each number in ProgramFacts::owner, the blocks (or kOutside) that use that memory under any name.
std::vector<std::set<int>> blocks_by_owner(const ProgramFacts& facts) {
  std::vector<std::set<int>> used(facts.ops.size());
  for (const OpFacts& op : facts.ops)
    for (int input : op.inputs)
      if (const int owner = facts.owner[input]; owner >= 0) used[owner].insert(op.block);
  return used;
}

// An op's own number need not be its outputs' owner: what meets in a list or a branch has the first one's.
std::set<int> blocks_using(const OpFacts& op, const ProgramFacts& facts, const std::vector<std::set<int>>& by_owner) {
  std::set<int> used;
  for (int output : op.outputs)
    if (const int owner = facts.owner[output]; owner >= 0) used.insert(by_owner[owner].begin(), by_owner[owner].end());
  return used;
}

OpPlacement make_placement(const ProgramFacts& facts, size_t op, Place outputs, Place saved) {
  const OpFacts& fact = facts.ops[op];
  const std::string name = fact.region.empty() ? fact.name : fact.region + "/" + fact.name;
  return {static_cast<int>(op), name, std::vector<Place>(fact.outputs.size(), outputs), saved};
}

// "softmax" and "aten::softmax" are one op.
std::string bare(const std::string& name) { return name.starts_with("aten::") ? name.substr(6) : name; }

// The save list of checkpoint:op, resolved against a program: classes of ops ("matmul") and ops by name.
class SaveList {
 public:
  SaveList() = default;
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

  // `matmul` is the number of this matmul within its block: every second one is cheap enough to make again.
  bool has(const OpFacts& op, int matmul) const {
    const bool of_class = (op.matmul && classes_.count("matmul-all")) ||
                          (op.matmul && classes_.count("matmul") && matmul % 2 == 0) ||
                          (op.attention && classes_.count("attention"));
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

struct Checkpointing {
  int64_t every = 1;
  bool inputs_to_host = false;
  SaveList save;

  bool covers(int block) const { return block != kOutside && block % every == 0; }
};

// Where the outputs of an op go whose memory is used in the blocks `used`.
Place checkpoint_outputs(const Checkpointing& rule, const OpFacts& op, const std::set<int>& used, bool saved) {
  const auto elsewhere = [&](int block) { return block != op.block; };
  const auto block_input = [&](int block) { return elsewhere(block) && rule.covers(block); };
  if (rule.inputs_to_host && std::any_of(used.begin(), used.end(), block_input)) return Place::host;
  const bool stays = saved || !rule.covers(op.block) || std::any_of(used.begin(), used.end(), elsewhere);
  return stays ? Place::keep : Place::recompute;
}

std::vector<OpPlacement> checkpoint(const Checkpointing& rule, const ProgramFacts& facts) {
  const std::vector<std::set<int>> by_owner = blocks_by_owner(facts);
  std::vector<int> matmuls(facts.blocks.size(), 0);
  std::vector<OpPlacement> placements;
  std::set<int> saved_owners;  // what an in-place op writes into a saved value is saved with it
  for (size_t i = 0; i < facts.ops.size(); ++i) {
    const OpFacts& op = facts.ops[i];
    const int matmul = op.matmul && op.block != kOutside ? matmuls[op.block]++ : 0;
    if (!makes_values(op)) continue;
    const int owner = facts.owner[op.outputs[0]];
    const bool covered = rule.covers(op.block);
    const bool saved = covered && (rule.save.has(op, matmul) || (op.in_place && saved_owners.count(owner)));
    if (saved) saved_owners.insert(owner);
    const Place outputs = checkpoint_outputs(rule, op, blocks_using(op, facts, by_owner), saved);
    const Place own = covered && !saved ? Place::recompute : Place::keep;
    if (outputs != Place::keep || own != Place::keep) placements.push_back(make_placement(facts, i, outputs, own));
  }
  return placements;
}

void check_blocks(const StrategySpec& spec, const ProgramFacts& facts) {
  if (facts.blocks.empty())
    throw UsageError("no repeated blocks were found in the model; name them with --blocks 'layers.*'");
  const auto blocks = static_cast<int64_t>(facts.blocks.size());
  if (spec.every > blocks)
    throw UsageError("checkpoint:every=" + std::to_string(spec.every) + ": n must be at most the number of blocks, " +
                     std::to_string(blocks));
}

void write_checkpoint(const StrategySpec& spec, const ProgramFacts& facts, Plan& plan) {
  check_blocks(spec, facts);
  Checkpointing rule;
  rule.every = spec.every;
  rule.inputs_to_host = spec.value("inputs") == "host";
  if (spec.info->name == "checkpoint:op") rule.save = SaveList(spec.list("save"), facts);
  plan.placements = checkpoint(rule, facts);
}

void write_offload(const StrategySpec& spec, const ProgramFacts& facts, Plan& plan) {
  const bool stream = spec.info->name == "offload:stream";
  plan.transfer.side_stream = stream;
  plan.transfer.min_bytes = plan.saved_min_bytes = spec.bytes("min");
  if (stream) plan.transfer.stash_bytes = spec.bytes("stash");
  plan.transfer.prefetch_bytes = stream ? spec.bytes("prefetch") : 0;
  const bool move_head = spec.value("head") == "move";
  for (size_t i = 0; i < facts.ops.size(); ++i)
    if (makes_values(facts.ops[i]) && (move_head || !facts.ops[i].after_blocks))
      plan.placements.push_back(make_placement(facts, i, Place::host, Place::host));
}

}  // namespace

Plan make_plan(const std::string& spec, const ProgramFacts& facts) {
  const StrategySpec parsed = parse_strategy(spec);
  Plan plan;
  plan.strategy = spec;
  if (parsed.info->name.starts_with("checkpoint:")) write_checkpoint(parsed, facts, plan);
  if (parsed.info->name.starts_with("offload:")) write_offload(parsed, facts, plan);
  return plan;
}

}  // namespace memtune::plan
