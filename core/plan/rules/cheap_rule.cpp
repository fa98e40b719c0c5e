#include "core/plan/rules/cheap_rule.h"

#include <algorithm>

#include "core/plan/rules/min_cut.h"
#include "core/plan/rules/op_class.h"

namespace memtune::plan {
namespace {

class CheapRule {
 public:
  CheapRule(const std::vector<bool>& covered, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
            int64_t saved_min_bytes, ActivationPlacementDraft& draft)
      : covered_(covered), facts_(facts), graph_(graph), saved_min_bytes_(saved_min_bytes), draft_(draft) {}

  void place() {
    const auto count = static_cast<int>(graph_.memories().size());
    MinCut cut(2 * count + 2);
    for (int memory = 0; memory < count; ++memory) add_edges(memory, cut);
    cut.solve(source(), sink());
    std::vector<bool> recomputed(count);
    for (int memory = 0; memory < count; ++memory)
      if (is_wanted(memory)) recompute(memory, cut, recomputed);
  }

 private:
  // A memory is two nodes. The edge between them costs its bytes and is cut if the memory is kept.
  static int before(int memory) { return 2 * memory; }
  static int after(int memory) { return 2 * memory + 1; }
  int source() const { return 2 * static_cast<int>(graph_.memories().size()); }
  int sink() const { return source() + 1; }

  bool covers(const ProgramOpFacts& op) const { return op.block != kOutside && covered_[op.block]; }
  const ProgramOpFacts& maker(int memory) const { return facts_.ops[graph_.memories()[memory].op]; }

  // A matmul's private values are casts of its inputs.
  static bool private_is_cheap(const ProgramOpFacts& op) { return is_cheap(op) || (is_matmul(op) && makes_values(op)); }

  bool is_wanted(int memory) const { return graph_.memories()[memory].saved && covers(maker(memory)); }

  bool stays_so_far(const OpOutputAllocationNode& memory) const {
    return draft_.place(memory) == TensorPlacement::keep;
  }

  bool can_recompute(int index) const {
    const OpOutputAllocationNode& memory = graph_.memories()[index];
    if (!covers(maker(index)) || !stays_so_far(memory) || memory.crosses) return false;
    if (memory.output == kPrivateSave)
      return private_is_cheap(maker(index)) && memory.bytes >= saved_min_bytes_ && reads_what_stays(memory.op, index);
    const auto can_rerun = [&](int op) { return is_cheap(facts_.ops[op]) && reads_what_stays(op, index); };
    return can_rerun(memory.op) && std::all_of(memory.writers.begin(), memory.writers.end(), can_rerun);
  }

  // An input that is overwritten later would have to be copied for a recomputation. `itself` is exempt, because the
  // recomputation creates it.
  bool reads_what_stays(int op, int itself) const {
    const std::vector<int>& read = graph_.read_by(op);
    return std::all_of(read.begin(), read.end(),
                       [&](int input) { return input == itself || graph_.memories()[input].last_write() < op; });
  }

  // A memory that stays in any case, or that another rule has placed, costs nothing.
  int64_t cost(int index) const {
    const OpOutputAllocationNode& memory = graph_.memories()[index];
    const bool there = !covers(maker(index)) && memory.saved;
    return there || !stays_so_far(memory) ? 0 : memory.bytes;
  }

  void add_edges(int memory, MinCut& cut) const {
    cut.add_edge(before(memory), after(memory), cost(memory));
    if (is_wanted(memory)) cut.add_edge(after(memory), sink(), MinCut::kNever);
    if (!can_recompute(memory)) return cut.add_edge(source(), before(memory), MinCut::kNever);
    for (const int input : graph_.made_from(graph_.memories()[memory]))
      cut.add_edge(after(input), before(memory), MinCut::kNever);
  }

  // Recomputes only memories on a path to a wanted one. Any other would hold its inputs for nothing.
  void recompute(int wanted, const MinCut& cut, std::vector<bool>& recomputed) {
    std::vector<int> queue = {wanted};
    for (size_t i = 0; i < queue.size(); ++i) {
      const int memory = queue[i];
      if (!cut.on_sink_side(before(memory)) || recomputed[memory]) continue;
      recomputed[memory] = true;
      const OpOutputAllocationNode& made = graph_.memories()[memory];
      draft_.fill(made, TensorPlacement::recompute);
      for (const int input : graph_.made_from(made)) queue.push_back(input);
    }
  }

  const std::vector<bool>& covered_;
  const ProgramFacts& facts_;
  const OpMemoryAccessGraph& graph_;
  int64_t saved_min_bytes_;
  ActivationPlacementDraft& draft_;
};

}  // namespace

void place_cheap(const std::vector<bool>& covered, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                 int64_t saved_min_bytes, ActivationPlacementDraft& draft) {
  CheapRule(covered, facts, graph, saved_min_bytes, draft).place();
}

}  // namespace memtune::plan
