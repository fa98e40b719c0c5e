#include "core/sweep/proposals/trial_proposer.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

class AllCandidates : public TrialProposer {
 public:
  AllCandidates(const CandidateStrategiesAndUserPlanFiles& candidates,
                const std::vector<InspectedModelAtShape>& settings)
      : candidates_(candidates), settings_(settings) {}

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) override {
    if (std::exchange(asked_, true)) return fallback(tried);
    std::vector<TrialProposal> proposals;
    std::vector<std::string> errors;
    for (size_t setting = 0; setting < settings_.size(); ++setting)
      for (const CandidateStrategyOrUserPlanFile& candidate : candidates_.all()) try {
          plan::Plan plan = candidate.make_plan(settings_[setting].facts.program);
          const bool baseline = plan.keeps_everything();
          proposals.push_back({candidate.name(), setting, std::move(plan), {}, baseline});
        } catch (const UsageError& error) {
          // For a model without blocks, all strategies fail with the same message at every setting.
          if (std::ranges::count(errors, error.what()) == 0) errors.emplace_back(error.what());
        }
    if (!errors.empty()) throw UsageError(join(errors, "; "));
    return proposals;
  }

 private:
  // Once, for settings where nothing else had room on the device.
  std::vector<TrialProposal> fallback(std::span<const FinishedProposal> tried) {
    std::vector<TrialProposal> proposals;
    if (std::exchange(fell_back_, true)) return proposals;
    for (size_t setting = 0; setting < settings_.size(); ++setting) {
      const auto had_no_room = [&](const FinishedProposal& one) {
        return one.setting != setting || one.measurement.outcome == result::TrialOutcome::device_oom;
      };
      if (!std::ranges::all_of(tried, had_no_room)) continue;
      for (const CandidateStrategyOrUserPlanFile& candidate : candidates_.fallback())
        proposals.push_back({candidate.name(), setting, candidate.make_plan(settings_[setting].facts.program)});
    }
    return proposals;
  }

  const CandidateStrategiesAndUserPlanFiles& candidates_;
  const std::vector<InspectedModelAtShape>& settings_;
  bool asked_ = false, fell_back_ = false;
};

}  // namespace

std::unique_ptr<TrialProposer> propose_all(const CandidateStrategiesAndUserPlanFiles& candidates,
                                           const std::vector<InspectedModelAtShape>& settings) {
  return std::make_unique<AllCandidates>(candidates, settings);
}

}  // namespace memtune::sweep
