#include "core/sweep/proposals/proposer.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

class AllCandidates : public Proposer {
 public:
  AllCandidates(const Candidates& candidates, const std::vector<Setting>& settings)
      : candidates_(candidates), settings_(settings) {}

  std::vector<Proposal> next(std::span<const Tried>) override {
    if (std::exchange(asked_, true)) return {};
    std::vector<Proposal> proposals;
    std::vector<std::string> errors;
    for (size_t setting = 0; setting < settings_.size(); ++setting)
      for (const Candidate& candidate : candidates_.all()) try {
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
  const Candidates& candidates_;
  const std::vector<Setting>& settings_;
  bool asked_ = false;
};

}  // namespace

std::unique_ptr<Proposer> propose_all(const Candidates& candidates, const std::vector<Setting>& settings) {
  return std::make_unique<AllCandidates>(candidates, settings);
}

}  // namespace memtune::sweep
