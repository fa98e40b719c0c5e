#include "core/plan/planner/chain_solver.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/plan/planner/chain_block_option_dynamic_program.h"
#include "core/plan/planner/chain_time_lower_bound.h"
#include "core/plan/planner/pruned_chain_and_later_block_memory.h"

namespace memtune::planner {
namespace {

constexpr size_t kFirstLabels = 256;  // per block, for a first limit
constexpr double kAllChoices = 2e6;   // up to this many, all are examined if needed
constexpr size_t kPairs = 1024;       // divided by the number of blocks: distance of pairs that change at once
constexpr double kMargin = 1e-10;     // for rounding, relative

// The choices found so far, with their costs.
class ChoicePool {
 public:
  ChoicePool(const ChainPlanningProblem& chain, size_t most) : chain_(chain), most_(most) {}

  bool add(const std::vector<int>& choice) {
    ChainSimulationResult cost = simulate(chain_, choice);
    if (!cost.fits || (plans_.size() >= most_ && cost.ms > worst_ms_)) return false;
    plans_.push_back({choice, cost});
    if (plans_.size() >= 2 * most_ + 64) tidy();
    return true;
  }

  // Whether a choice that takes at least `least_ms` may be among the best.
  bool may_take(double least_ms) const { return plans_.size() < most_ || least_ms * (1 - kMargin) <= worst_ms_; }

  // Sorts, drops duplicates, and keeps the best `most`.
  const std::vector<ChainSolution>& tidy() {
    std::ranges::sort(plans_, [](const ChainSolution& a, const ChainSolution& b) {
      return std::tie(a.cost.ms, a.choice) < std::tie(b.cost.ms, b.choice);
    });
    const auto is_same = [](const ChainSolution& a, const ChainSolution& b) { return a.choice == b.choice; };
    plans_.erase(std::unique(plans_.begin(), plans_.end(), is_same), plans_.end());
    if (plans_.size() > most_) plans_.resize(most_);
    if (!plans_.empty()) worst_ms_ = plans_.back().cost.ms;
    return plans_;
  }

  double best_ms() { return tidy().empty() ? std::numeric_limits<double>::infinity() : plans_.front().cost.ms; }

 private:
  const ChainPlanningProblem& chain_;
  size_t most_;
  std::vector<ChainSolution> plans_;
  double worst_ms_ = std::numeric_limits<double>::infinity();
};

class ChainSearch {
 public:
  ChainSearch(const ChainPlanningProblem& chain, size_t most, const ChainSolverEffortOptions& effort)
      : reduced_(chain), pool_(reduced_.chain(), most), most_(most), effort_(effort) {}

  void run() {
    const std::optional<std::vector<int>> least = reduced_.least_choice();
    if (!least || !pool_.add(*least)) return;
    if (reduced_.size() == 0) {
      lower_ms_ = 0;
      return;
    }
    ChainTimeLowerBound bound(reduced_);
    find(bound, first_labels());
    bound.raise(std::min(pool_.best_ms(), 2 * bound.root_ms()), effort_.steps);
    find(bound, first_labels());
    improve();
    bound.raise(std::min(pool_.best_ms(), 2 * bound.root_ms()), effort_.steps);
    const double dropped_ms = find(bound, are_few() ? std::numeric_limits<size_t>::max() / 4 : most_labels());
    improve();
    const double proven_ms = reduced_.is_thinned() ? bound.root_ms() : std::max(bound.root_ms(), dropped_ms);
    lower_ms_ = std::min(proven_ms, pool_.best_ms()) * (1 - kMargin);
  }

  std::vector<ChainSolution> plans() {
    std::vector<ChainSolution> plans = pool_.tidy();
    for (ChainSolution& plan : plans) plan.choice = reduced_.original(plan.choice);
    return plans;
  }
  double lower_ms() const { return lower_ms_; }

 private:
  bool are_few() const {
    double choices = 1;
    for (size_t i = 0; i < reduced_.size(); ++i) choices *= static_cast<double>(reduced_.options(i).size());
    return choices <= kAllChoices;
  }

  size_t most_labels() const { return effort_.labels * (reduced_.has_host_limit() ? 2 : 1) / reduced_.size(); }

  size_t first_labels() const { return std::min(kFirstLabels, most_labels() / 4); }

  // Returns the least time that a dropped choice may take.
  double find(const ChainTimeLowerBound& bound, size_t cap) {
    const double best_ms = pool_.best_ms();
    ChainBlockOptionDynamicProgram search(reduced_, bound, best_ms * (1 + (most_ > 1 ? 2e-3 : -kMargin)), cap);
    for (const std::vector<int>& choice : search.run()) pool_.add(choice);
    return search.dropped_ms();
  }

  // Changes one block, or two near each other, until nothing gets faster.
  void improve() {
    for (double before = std::numeric_limits<double>::infinity(); pool_.best_ms() < before;) {
      before = pool_.best_ms();
      std::vector<int> choice = pool_.tidy().front().choice;
      unhindered_ms_ = 0;
      for (size_t i = 0; i < choice.size(); ++i) {
        const ChainBlockTimesAndOptions& block = reduced_.chain().blocks[i];
        unhindered_ms_ += block.forward_ms + block.backward_ms + recompute_ms(i, choice[i]);
      }
      for (size_t i = 0; i < choice.size(); ++i) change(choice, i);
    }
  }

  void change(std::vector<int>& choice, size_t block) {
    const auto add = [&] {
      if (pool_.may_take(unhindered_ms_)) pool_.add(choice);
    };
    each_other(choice, block, [&] {
      add();
      for (size_t j = block + 1; effort_.pairs && j < std::min(choice.size(), block + 2 + kPairs / choice.size()); ++j)
        each_other(choice, j, add);
    });
  }

  template <typename Visit>
  void each_other(std::vector<int>& choice, size_t block, const Visit& visit) {
    const int own = choice[block];
    const double own_ms = unhindered_ms_;
    for (int k = 0; k < static_cast<int>(reduced_.options(block).size()); ++k) {
      if (k == own) continue;
      choice[block] = k;
      unhindered_ms_ = own_ms + recompute_ms(block, k) - recompute_ms(block, own);
      visit();
    }
    choice[block] = own;
    unhindered_ms_ = own_ms;
  }

  double recompute_ms(size_t block, int option) const {
    return reduced_.options(block)[static_cast<size_t>(option)].recompute_ms;
  }

  PrunedChainAndLaterBlockMemory reduced_;
  ChoicePool pool_;
  size_t most_;
  ChainSolverEffortOptions effort_;
  double unhindered_ms_ = 0;  // of the choice being changed, without waits
  double lower_ms_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<ChainSolution> solve_best(const ChainPlanningProblem& chain, size_t most,
                                      const ChainSolverEffortOptions& effort) {
  ChainSearch search(chain, most, effort);
  search.run();
  return search.plans();
}

double lower_bound_ms(const ChainPlanningProblem& chain) {
  ChainSearch search(chain, 1, {});
  search.run();
  return search.lower_ms();
}

std::optional<int64_t> least_budget(const ChainPlanningProblem& chain) {
  return PrunedChainAndLaterBlockMemory(chain).least_budget();
}

}  // namespace memtune::planner
