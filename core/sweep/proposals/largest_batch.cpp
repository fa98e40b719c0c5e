#include "core/sweep/proposals/largest_batch.h"

#include <algorithm>
#include <map>
#include <utility>

namespace memtune::sweep {
namespace {

using result::TrialOutcome;

// Bisection for one candidate at one sequence length.
struct Search {
  const CandidateStrategyOrUserPlanFile* candidate;
  std::vector<size_t> settings;  // ascending by batch
  size_t fitting = 0;            // how many of them, from the smallest on, are known to fit
  size_t unknown_end = 0;        // settings from here on do not fit
};

class LargestBatch : public TrialProposer {
 public:
  LargestBatch(const CandidateStrategiesAndUserPlanFiles& candidates,
               const std::vector<InspectedModelAtShape>& settings, int64_t budget_bytes)
      : settings_(settings), budget_bytes_(budget_bytes) {
    std::map<std::optional<int64_t>, std::vector<size_t>> by_sequence;
    for (size_t i = 0; i < settings.size(); ++i) by_sequence[settings[i].sequence].push_back(i);
    for (auto& [sequence, indices] : by_sequence) {
      std::ranges::sort(indices, {}, [&](size_t i) { return settings[i].batch; });
      for (const CandidateStrategyOrUserPlanFile& candidate : candidates.all())
        searches_.push_back({&candidate, indices, 0, indices.size()});
    }
  }

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) override {
    for (; seen_ < tried.size(); ++seen_) learn(tried[seen_]);
    std::vector<TrialProposal> proposals;
    for (const Search& search : searches_)
      if (search.fitting < search.unknown_end) {
        const size_t setting = search.settings[(search.fitting + search.unknown_end) / 2];
        plan::Plan plan = search.candidate->make_plan(settings_[setting].facts.program);
        const bool baseline = plan.keeps_everything();
        proposals.push_back({search.candidate->name(), setting, std::move(plan), {}, baseline});
      }
    // Trials of a setting stay together, the baseline first.
    std::ranges::stable_sort(proposals, {}, &TrialProposal::setting);
    return proposals;
  }

 private:
  void learn(const FinishedProposal& tried) {
    for (Search& search : searches_) {
      if (search.candidate->name() != tried.name) continue;
      const auto found = std::ranges::find(search.settings, tried.setting);
      if (found == search.settings.end()) continue;
      const auto at = static_cast<size_t>(found - search.settings.begin());
      if (fits(tried.measurement))
        search.fitting = std::max(search.fitting, at + 1);
      else
        search.unknown_end = may_fit_smaller(tried.measurement) ? std::min(search.unknown_end, at) : search.fitting;
    }
  }

  bool fits(const result::TrialMeasurement& m) const {
    return m.outcome == TrialOutcome::ok && (budget_bytes_ == 0 || required_bytes(m) <= budget_bytes_);
  }
  // Wrong results do not depend on the batch.
  static bool may_fit_smaller(const result::TrialMeasurement& m) {
    return m.outcome != TrialOutcome::nan && m.outcome != TrialOutcome::mismatch;
  }

  const std::vector<InspectedModelAtShape>& settings_;
  const int64_t budget_bytes_;
  std::vector<Search> searches_;
  size_t seen_ = 0;
};

}  // namespace

TrialProposerFactory propose_largest_batches(int64_t budget_bytes) {
  return [budget_bytes](const CandidateStrategiesAndUserPlanFiles& candidates,
                        const std::vector<InspectedModelAtShape>& settings) {
    return std::make_unique<LargestBatch>(candidates, settings, budget_bytes);
  };
}

std::vector<int64_t> divisors(int64_t samples) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i * i <= samples; ++i)
    if (samples % i == 0) {
      found.push_back(i);
      if (i != samples / i) found.push_back(samples / i);
    }
  std::ranges::sort(found);
  return found;
}

}  // namespace memtune::sweep
