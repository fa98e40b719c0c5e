#include "core/sweep/trials/trial_group.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "core/answer/result/merge_ranks.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

using result::TrialOutcome;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kGroupTick{20};  // to poll all ranks once
constexpr milliseconds kMinTick{1};     // to poll one rank
// From the first failure, for the others to report what they wait for.
constexpr milliseconds kOthersDrainTime{1000};

bool worked(const TrialAnswer& answer) {
  if (std::holds_alternative<result::ResumableTrainingResult>(answer)) return true;
  if (const auto* saves = std::get_if<result::StateSaveModeMeasurement>(&answer))
    return saves->outcome == TrialOutcome::ok;
  const auto* measurement = std::get_if<result::TrialMeasurement>(&answer);
  return measurement && (measurement->outcome == TrialOutcome::ok || measurement->outcome == TrialOutcome::mismatch ||
                         measurement->outcome == TrialOutcome::nan);
}

std::string rank_text(size_t rank) { return "rank " + std::to_string(rank); }

class TrialGroup {
 public:
  explicit TrialGroup(const std::vector<std::unique_ptr<LocalOrRemoteRankTrialProcess>>& ranks)
      : trials_(ranks), answers_(ranks.size()) {}

  TrialAnswer run() {
    const milliseconds tick = std::max(kMinTick, kGroupTick / static_cast<int64_t>(trials_.size()));
    while (order_.size() < trials_.size()) {
      for (size_t i = 0; i < trials_.size(); ++i)
        if (!answers_[i] && !trials_[i]->poll_output(tick)) note_end(i);
      if (failed_ && Clock::now() >= *failed_ + kOthersDrainTime)
        for (const auto& trial : trials_) trial->end();
    }
    return evaluate();
  }

 private:
  void note_end(size_t rank) {
    answers_[rank] = trials_[rank]->answer();
    order_.push_back(rank);
    if (!failed_ && !worked(*answers_[rank])) failed_ = Clock::now();
  }

  TrialAnswer evaluate() const {
    // A failed save fails on all ranks.
    if (const auto all = all_of<result::StateSaveModeMeasurement>()) return result::merge_ranks(*all);
    if (!failed_) return of_all();
    for (const size_t rank : order_) {
      const TrialAnswer& answer = *answers_[rank];
      if (std::holds_alternative<FailedWaitForOtherRank>(answer) || worked(answer) ||
          trials_[rank]->stopped_by_other_rank())
        continue;
      return of_rank(rank, answer);
    }
    return of_missing();
  }

  template <class Answer>
  std::optional<std::vector<Answer>> all_of() const {
    std::vector<Answer> all;
    for (const auto& answer : answers_) {
      if (!std::holds_alternative<Answer>(*answer)) return std::nullopt;
      all.push_back(std::get<Answer>(*answer));
    }
    return all;
  }

  TrialAnswer of_all() const {
    if (const auto all = all_of<result::TrialMeasurement>()) return result::merge_ranks(*all);
    if (const auto all = all_of<result::ResumableTrainingResult>()) return result::merge_ranks(*all);
    return ProcessFailure{TrialOutcome::error, "the ranks gave different kinds of answers"};
  }

  TrialAnswer of_rank(size_t rank, TrialAnswer answer) const {
    if (auto* measurement = std::get_if<result::TrialMeasurement>(&answer))
      measurement->reason = rank_text(rank) + ": " + measurement->reason;
    if (auto* saves = std::get_if<result::StateSaveModeMeasurement>(&answer))
      saves->reason = rank_text(rank) + ": " + saves->reason;
    if (auto* problem = std::get_if<ReceivedUsageError>(&answer);
        problem && !std::holds_alternative<ReceivedUsageError>(*answers_.front()))
      problem->message = rank_text(rank) + ": " + problem->message;
    if (auto* failure = std::get_if<ProcessFailure>(&answer))
      failure->reason = rank_text(rank) + ": " + failure->reason;
    return answer;
  }

  // No rank failed on its own: some are missing, or a connection broke.
  TrialAnswer of_missing() const {
    std::vector<std::string> missing, waited;
    bool timed_out = false;
    for (size_t i = 0; i < trials_.size(); ++i) {
      if (trials_[i]->stopped_by_other_rank()) missing.push_back(rank_text(i));
      const auto* problem = std::get_if<FailedWaitForOtherRank>(&*answers_[i]);
      if (problem && problem->timed_out) timed_out = true;
      if (problem) waited.push_back(problem->message);
    }
    const TrialPhaseProgress& phase = trials_[order_.front()]->phase();
    std::string reason = missing.empty() ? "" : join(missing, ", ") + " did not arrive: ";
    reason += waited.empty() ? "the ranks ended" : waited.front();
    if (!phase.name.empty()) reason += ", in phase " + phase.name;
    if (phase.steps > 0) reason += ", step " + std::to_string(phase.step) + " of " + std::to_string(phase.steps);
    return ProcessFailure{timed_out ? TrialOutcome::timeout : TrialOutcome::error, reason};
  }

  const std::vector<std::unique_ptr<LocalOrRemoteRankTrialProcess>>& trials_;
  std::vector<std::optional<TrialAnswer>> answers_;
  std::vector<size_t> order_;  // ranks, in the order they ended
  std::optional<Clock::time_point> failed_;
};

}  // namespace

TrialAnswer run_trial_group(const std::vector<std::unique_ptr<LocalOrRemoteRankTrialProcess>>& ranks) {
  return TrialGroup(ranks).run();
}

}  // namespace memtune::sweep
