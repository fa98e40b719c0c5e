#include "core/answer/trainer/equal_blocks_torch_function_placements.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/facts/operator_class_and_argument_roles.h"
#include "core/plan/rules/plan_check.h"
#include "core/plan/strategy/third_party_engine_preset.h"

namespace memtune::trainer {
namespace {

using plan::OneOpActivationPlacements;
using plan::ProgramOpFacts;
using plan::TensorPlacement;

// Python offloads to host memory only, so disk becomes host.
TensorPlacement tier(TensorPlacement place) { return place == TensorPlacement::disk ? TensorPlacement::host : place; }

// Whether Python counts the call: it creates memory or writes in place. `measured`: an op that did not run has no
// bytes.
bool is_counted(const ProgramOpFacts& op, bool measured) {
  if (measured && op.output_bytes.empty()) return false;
  if (op.in_place) return true;
  if (measured) return std::ranges::any_of(op.output_bytes, [](int64_t bytes) { return bytes > 0; });
  return !op.view && op.op_class != plan::OpClass::host && !op.outputs.empty();
}

// The function's name in user code: "add_" of "aten::add_.Tensor".
std::string function_of(const std::string& op) {
  std::string name = op.substr(op.rfind(':') + 1);
  name = name.substr(0, name.find('.'));
  while (name.starts_with('_')) name.erase(0, 1);
  while (name.ends_with("__")) name.pop_back();
  if (name == "to_copy" || name == "type_as") return "to";
  return name == "contiguous" ? "clone" : name;
}

size_t first_output(const ProgramOpFacts& op) {
  const auto found = std::ranges::find_if(op.output_bytes, [](int64_t bytes) { return bytes > 0; });
  return found == op.output_bytes.end() ? 0 : found - op.output_bytes.begin();
}

class Reader {
 public:
  Reader(const plan::Plan& plan, const plan::ProgramFacts& facts)
      : facts_(facts),
        measured_(std::ranges::any_of(facts.ops, [](const ProgramOpFacts& op) { return !op.output_bytes.empty(); })),
        placed_(facts.ops.size()) {
    for (const OneOpActivationPlacements& placement : plan.placements) {
      plan::check_placement(placement, facts);
      placed_.at(placement.op) = &placement;
    }
    by_block_.resize(facts.blocks.size());
    moved_.resize(facts.blocks.size());
  }

  void read() {
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      const ProgramOpFacts& op = facts_.ops[i];
      if (op.block >= 0)
        read_op(op, places(i));
      else
        read_outside(op, places(i));
    }
    read_borders();
  }

  PythonPlanBlockPlacements result() const {
    PythonPlanBlockPlacements result;
    std::map<PlacementsByFunction, std::vector<int>> alike;
    for (size_t i = 0; i < by_block_.size(); ++i) alike[by_block_[i]].push_back(static_cast<int>(i));
    for (const auto& [functions, blocks] : alike) result.block_policies.push_back(shortest(functions, blocks));
    std::ranges::sort(result.block_policies, {},
                      [](const EqualBlocksTorchFunctionPlacements& t) { return t.blocks.front(); });
    result.regions.assign(regions_.begin(), regions_.end());
    result.offloads_input = offloads_input_;
    if (!moved_.empty()) result.max_offloaded_bytes = std::ranges::max(moved_);
    result.offloaded_bytes = std::accumulate(moved_.begin(), moved_.end(), moved_input_bytes_);
    result.left_bytes = left_bytes_;
    put_notes(result.notes);
    return result;
  }

 private:
  TorchFunctionResultAndSavePlacements places(size_t i) const {
    const OneOpActivationPlacements* placement = placed_[i];
    if (!placement) return {};
    const size_t output = first_output(facts_.ops[i]);
    const TensorPlacement result =
        output < placement->outputs.size() ? placement->outputs[output] : TensorPlacement::keep;
    return {result, placement->saved};
  }

  void read_op(const ProgramOpFacts& op, TorchFunctionResultAndSavePlacements places) {
    if (!is_counted(op, measured_)) return;
    const std::string& block = facts_.blocks[op.block].region;
    const std::string region = op.region.starts_with(block + ".") ? op.region.substr(block.size() + 1) : "";
    if (!region.empty()) regions_.insert(region);
    const std::string name = region + "/" + function_of(op.name);
    const std::string key = name + "#" + std::to_string(seen_[std::to_string(op.block) + " " + name]++);
    if (places.result == TensorPlacement::disk || places.own == TensorPlacement::disk) has_disk_ = true;
    const TorchFunctionResultAndSavePlacements tiers{tier(places.result), tier(places.own)};
    by_block_[op.block].emplace(key, tiers);
    if (plan::traits_of(op.name).op_class == plan::OpClass::unknown && tiers != TorchFunctionResultAndSavePlacements{})
      unknown_.insert(op.name);
    for (size_t i = 0; i < op.output_bytes.size(); ++i)
      if (i < op.output_saved.size() && op.output_saved[i]) count(op, op.output_bytes[i], tiers.result);
    count(op, op.private_bytes, tiers.own);
  }

  void count(const ProgramOpFacts& op, int64_t bytes, TensorPlacement place) {
    if (place == TensorPlacement::keep) left_bytes_ += bytes;
    if (place == TensorPlacement::host) moved_[op.block] += bytes;
  }

  void read_outside(const ProgramOpFacts& op, TorchFunctionResultAndSavePlacements places) {
    for (size_t i = 0; i < op.output_bytes.size(); ++i)
      if (places.result != TensorPlacement::keep && op.output_saved[i]) outside_bytes_ += op.output_bytes[i];
    if (places.own != TensorPlacement::keep) outside_bytes_ += op.private_bytes;
  }

  // Handles tensors that cross the border of the blocks. Python offloads only the first block's hidden state, its
  // largest input, and sees only what blocks themselves save. A hidden state that stays counts as kept by the blocks.
  void read_borders() {
    std::vector<bool> taken(facts_.ops.size()), used_in_block(facts_.ops.size());
    for (const ProgramOpFacts& op : facts_.ops)
      for (const int value : op.inputs) {
        const int maker = value < static_cast<int>(facts_.owner.size()) ? facts_.owner[value] : -1;
        if (maker < 0 || op.block < 0) continue;
        used_in_block[maker] = true;
        if (op.block == 0) taken[maker] = true;
      }
    int64_t hidden = 0, kept_hidden = 0;
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      const ProgramOpFacts& op = facts_.ops[i];
      const int64_t bytes = op.output_bytes.empty() ? 0 : op.output_bytes[first_output(op)];
      const bool saved = !op.output_saved.empty() && op.output_saved[first_output(op)];
      if (op.block >= 0 && is_counted(op, measured_) && !used_in_block[i] && saved &&
          places(i).result != TensorPlacement::keep)
        outside_bytes_ += bytes;
      if (op.block >= 0 || !taken[i]) continue;
      const bool offloads_activations = tier(places(i).result) == TensorPlacement::host;
      offloads_input_ = offloads_input_ || offloads_activations;
      int64_t& largest = offloads_activations ? hidden : kept_hidden;
      largest = std::max(largest, saved ? bytes : 0);
    }
    outside_bytes_ -= hidden;
    moved_input_bytes_ = hidden;
    if (!offloads_input_) left_bytes_ += kept_hidden;
  }

  // Shortens the map: the most frequent places become `others`.
  static EqualBlocksTorchFunctionPlacements shortest(const PlacementsByFunction& functions,
                                                     const std::vector<int>& blocks) {
    std::map<TorchFunctionResultAndSavePlacements, int> count;
    for (const auto& [name, places] : functions) ++count[places];
    EqualBlocksTorchFunctionPlacements block_policy{blocks};
    if (!count.empty())
      block_policy.others =
          std::ranges::max_element(count, {}, &std::pair<const TorchFunctionResultAndSavePlacements, int>::second)
              ->first;
    for (const auto& [name, places] : functions)
      if (places != block_policy.others) block_policy.functions.emplace(name, places);
    return block_policy;
  }

  void put_notes(std::vector<std::string>& notes) const {
    if (has_disk_) notes.push_back("disk: the Python plan has none, so these activations go to CPU memory too");
    if (outside_bytes_ > 0)
      notes.push_back(
          format_bytes(outside_bytes_) +
          " of activations outside the blocks (head, loss and others) stay on the device: the file covers blocks only");
    if (!unknown_.empty())
      notes.push_back(join(std::vector<std::string>(unknown_.begin(), unknown_.end()), ", ") +
                      ": kernels of other libraries are not recomputed; their outputs stay");
  }

  const plan::ProgramFacts& facts_;
  const bool measured_;
  std::vector<const OneOpActivationPlacements*> placed_;
  std::vector<PlacementsByFunction> by_block_;
  std::vector<int64_t> moved_;
  std::map<std::string, int> seen_;
  std::set<std::string> regions_, unknown_;
  int64_t left_bytes_ = 0, moved_input_bytes_ = 0, outside_bytes_ = 0;
  bool has_disk_ = false, offloads_input_ = false;
};

}  // namespace

PythonPlanBlockPlacements make_block_policies(const plan::Plan& plan, const plan::ProgramFacts& facts) {
  if (facts.blocks.empty())
    throw UsageError(
        "no repeated blocks were found in the model, and the Python file covers blocks only: name them with --blocks");
  if (plan::has_compatibility_flags(plan))
    throw UsageError("it emulates another program's engine, which the Python file does not have; use that program");
  Reader reader(plan, facts);
  reader.read();
  PythonPlanBlockPlacements result = reader.result();
  if (plan.nested)
    result.notes.push_back(
        "nested checkpoints: activations between blocks are computed once and kept until their backward, not computed "
        "twice");
  if (plan.offloads_activations() && !plan.transfer.side_stream)
    result.notes.push_back("side_stream=false has no effect: copies overlap compute");
  if (plan.offloads_activations() && !plan.transfer.pinned)
    result.notes.push_back("pinned=false has no effect: the CPU memory is pinned");
  return result;
}

}  // namespace memtune::trainer
