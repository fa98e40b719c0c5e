#include "core/plan/rules/plan_placement_summary.h"

#include "core/plan/rules/activation_placement_draft.h"
#include "core/plan/rules/op_class.h"

namespace memtune::plan {
namespace {

using Sums = std::array<PlacementTotal, 4>;

void add(const OpOutputAllocationNode& memory, TensorPlacement place, Sums& sums) {
  PlacementTotal& sum = sums[static_cast<size_t>(place)];
  ++sum.values;
  sum.bytes += memory.bytes;
}

std::string range(size_t first, size_t last) {
  return std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
}

}  // namespace

PlanPlacementSummary summarize(const Plan& plan, const ProgramFacts& facts) {
  const OpMemoryAccessGraph graph(facts);
  const ActivationPlacementDraft draft(facts, plan);
  const std::vector<bool> needed = needed_in_backward(graph, draft);
  Sums before{}, behind{}, all{};
  std::vector<Sums> blocks(facts.blocks.size());
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    const OpOutputAllocationNode& memory = graph.memories()[i];
    const ProgramOpFacts& op = facts.ops[memory.op];
    const TensorPlacement place = draft.place(memory);
    add(memory, place, all);
    add(memory, place, op.block != kOutside ? blocks[op.block] : op.after_blocks ? behind : before);
  }
  PlanPlacementSummary summary{graph.measured(), {}, {"all", all}};
  if (before != Sums{}) summary.rows.push_back({"before", before});
  for (size_t first = 0, next = 0; first < blocks.size(); first = next) {
    while (next < blocks.size() && blocks[next] == blocks[first]) ++next;
    summary.rows.push_back({range(first, next - 1), blocks[first]});
  }
  if (behind != Sums{}) summary.rows.push_back({"behind", behind});
  return summary;
}

}  // namespace memtune::plan
