#include "core/plan/rules/offload_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/rules/op_class.h"

namespace memtune::plan {
namespace {

bool is_group(const StrategyPart& part) { return part.kind() == StrategyKind::offload_group; }

// Ops whose activations a part offloads.
class Reach {
 public:
  Reach(const StrategyPart& part, const ProgramFacts& facts)
      : blocks_(part.blocks()),
        end_(static_cast<int>(facts.blocks.size()) - part.count(StrategyParameterId::keep_last)),
        outside_(blocks_.all() && !is_group(part)),
        head_(part.has(StrategyParameterId::head) && part.word(StrategyParameterId::head) == "move") {}

  bool has(const ProgramOpFacts& op) const {
    if (!makes_values(op)) return false;
    if (op.block == kOutside) return outside_ && (head_ || !op.after_blocks);
    return op.block < end_ && blocks_.contains(op.block);
  }

 private:
  BlockSet blocks_;
  int end_;       // first of the last blocks, whose activations stay
  bool outside_;  // also offload activations of ops outside of blocks
  bool head_;
};

// Kind of a memory: memories of the same kind correspond to each other in different blocks.
class Kinds {
 public:
  using Kind = std::tuple<std::string, int, int>;  // region and op, number within the block, output

  explicit Kinds(const ProgramFacts& facts) {
    std::map<std::pair<int, std::string>, int> seen;
    for (const ProgramOpFacts& op : facts.ops) {
      const std::string name = without_numbers(op.region) + "/" + op.name;
      of_op_.emplace_back(name, seen[{op.block, name}]++);
    }
  }
  Kind of(const OpOutputAllocationNode& memory) const {
    const auto& [name, number] = of_op_[memory.op];
    return {name, number, memory.output};
  }

 private:
  std::vector<std::pair<std::string, int>> of_op_;
};

class Share {
 public:
  Share(const StrategyPart& part, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
        ActivationPlacementDraft& draft)
      : tier_(part.place(StrategyParameterId::tier)),
        fraction_(part.share(StrategyParameterId::fraction)),
        min_bytes_(part.bytes(StrategyParameterId::min)),
        facts_(facts),
        graph_(graph),
        draft_(draft),
        needed_(needed_in_backward(graph, draft)) {}

  void place(const Reach& reach) {
    const std::vector<int> candidates = in_order(reach);
    double total = 0, moved = 0;
    for (const int memory : candidates) total += size(memory);
    for (const int memory : candidates) {
      if (moved + size(memory) / 2 >= fraction_ * total) break;  // the share is nearer without it
      moved += size(memory);
      draft_.fill(at(memory), tier_);
    }
  }

 private:
  const OpOutputAllocationNode& at(int memory) const { return graph_.memories()[memory]; }
  // If nothing was measured, all memories count the same.
  double size(int memory) const { return graph_.measured() ? static_cast<double>(at(memory).bytes) : 1; }

  bool stays(int memory) const { return needed_[memory] && draft_.place(at(memory)) != TensorPlacement::recompute; }

  bool is_candidate(int memory, const Reach& reach) const {
    const bool large = !graph_.measured() || at(memory).bytes >= min_bytes_;
    return large && needed_[memory] && reach.has(facts_.ops[at(memory).op]) &&
           draft_.place(at(memory)) == TensorPlacement::keep;
  }

  // Flops needed to recompute `memory` from the other memories that stay.
  double flops_to_remake(int memory) const {
    if (!graph_.measured()) return is_attention(facts_.ops[at(memory).op]) ? 2 : is_matmul(facts_.ops[at(memory).op]);
    double flops = 0;
    std::set<int> ops;
    std::vector<int> queue = {memory};
    for (size_t i = 0; i < queue.size(); ++i) {
      const int op = at(queue[i]).op;
      if ((i > 0 && stays(queue[i])) || !ops.insert(op).second) continue;
      flops += facts_.ops[op].flops;
      for (const int input : graph_.made_from(at(queue[i]))) queue.push_back(input);
    }
    return flops;
  }

  // Kinds that cost most to recompute per byte come first. Within a kind, the first blocks come first, because backward
  // needs their activations last.
  std::vector<int> in_order(const Reach& reach) const {
    struct Sum {
      double flops = 0, bytes = 0;
      double density() const { return bytes > 0 ? flops / bytes : 0; }
    };
    const Kinds kinds(facts_);
    std::map<Kinds::Kind, Sum> sums;
    std::vector<int> candidates;
    for (int memory = 0; memory < static_cast<int>(needed_.size()); ++memory) {
      if (!is_candidate(memory, reach)) continue;
      candidates.push_back(memory);
      Sum& sum = sums[kinds.of(at(memory))];
      sum.flops += flops_to_remake(memory);
      sum.bytes += size(memory);
    }
    const auto rank = [&](int memory) {
      const Kinds::Kind kind = kinds.of(at(memory));
      return std::tuple(-sums[kind].density(), kind, memory);
    };
    std::sort(candidates.begin(), candidates.end(), [&](int a, int b) { return rank(a) < rank(b); });
    return candidates;
  }

  TensorPlacement tier_;
  double fraction_;
  int64_t min_bytes_;
  const ProgramFacts& facts_;
  const OpMemoryAccessGraph& graph_;
  ActivationPlacementDraft& draft_;
  std::vector<bool> needed_;
};

// Ops under the hooks of a preset. The output layer is the last matmul after the blocks, with all of its module. The
// loss is not part of the model.
class Hooked {
 public:
  Hooked(const ThirdPartyEnginePreset& preset, const ProgramFacts& facts)
      : hooks_(preset.hooks), end_(static_cast<int>(facts.blocks.size()) - preset.keep_last) {
    for (const ProgramOpFacts& op : facts.ops)
      if (op.after_blocks && is_matmul(op) && !is_loss(op)) output_ = &op;
  }

  bool has(const ProgramOpFacts& op) const {
    if (hooks_ == StepPartWithSavedTensorHooks::blocks) return op.block != kOutside && op.block < end_;
    return !is_output(op) && (hooks_ == StepPartWithSavedTensorHooks::step || !is_loss(op));
  }

 private:
  static bool is_loss(const ProgramOpFacts& op) { return op.region == "loss" || op.region.starts_with("loss."); }
  bool is_output(const ProgramOpFacts& op) const {
    return &op == output_ || (output_ && op.after_blocks && !output_->region.empty() && op.region == output_->region);
  }

  StepPartWithSavedTensorHooks hooks_;
  int end_;  // first of the last blocks, whose tensors stay
  const ProgramOpFacts* output_ = nullptr;
};

void offload_saves(const ThirdPartyEnginePreset& preset, const ProgramFacts& facts, ActivationPlacementDraft& draft) {
  const Hooked hooked(preset, facts);
  for (size_t i = 0; i < facts.ops.size(); ++i)
    if (makes_values(facts.ops[i]) && hooked.has(facts.ops[i])) draft.offload_saves(static_cast<int>(i));
}

void check_keep_last(const StrategyPart& part, const ProgramFacts& facts) {
  const size_t blocks = facts.blocks.size();
  if (part.count(StrategyParameterId::keep_last) > static_cast<int>(blocks))
    throw UsageError(std::string(part.info().name) + ": " + part.setting(StrategyParameterId::keep_last) +
                     " must be at most the number of blocks, " + std::to_string(blocks));
}

}  // namespace

TransferSettings transfer_settings(const StrategyPart& part) {
  if (part.info().preset) return part.info().preset->transfer;
  TransferSettings transfer;
  transfer.pinned = part.word(StrategyParameterId::memory) == "pinned";
  transfer.side_stream = part.kind() != StrategyKind::offload_sync;
  transfer.min_bytes = part.bytes(StrategyParameterId::min);
  if (part.has(StrategyParameterId::stash)) transfer.stash_bytes = part.bytes(StrategyParameterId::stash);
  transfer.prefetch_bytes = part.kind() == StrategyKind::offload_stream ? part.bytes(StrategyParameterId::prefetch) : 0;
  if (!is_group(part)) return transfer;
  transfer.schedule = ActivationOffloadCopyGranularity::block;
  transfer.groups_in_flight = part.count(StrategyParameterId::in_flight);
  transfer.prefetch_blocks = part.count(StrategyParameterId::prefetch);
  return transfer;
}

void place_offload(const StrategyPart& part, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                   ActivationPlacementDraft& draft) {
  if (part.info().preset) return offload_saves(*part.info().preset, facts, draft);
  check_keep_last(part, facts);
  const Reach reach(part, facts);
  if (part.share(StrategyParameterId::fraction) < 1) return Share(part, facts, graph, draft).place(reach);
  const TensorPlacement tier = part.place(StrategyParameterId::tier);
  for (size_t i = 0; i < facts.ops.size(); ++i)
    if (reach.has(facts.ops[i])) draft.fill(static_cast<int>(i), tier, tier);
}

}  // namespace memtune::plan
