#include "core/answer/result/recommend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <vector>

#include "core/answer/result/effect.h"
#include "core/answer/result/pareto.h"
#include "core/base/allocator_settings.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::result {
namespace {

constexpr double kSameMemory = 1.02;  // a peak this near is no reason to change a step more
constexpr double kTellsNothing = 10;  // largest ratio of an interval's ends that is still worth printing

const std::array<std::string, 2> kGoals = {"throughput", "memory"};

// "none at batch 2, seq 1024".
std::string spoken(const TrialResultRow& row) {
  const std::string axes = axes_text(row.batch, row.sequence);
  return row.measurement.strategy + (axes.empty() ? "" : " at " + axes);
}

std::string format_ms(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 1000 ? "%.4g ms" : "%.0f ms", ms);
  return text;
}

// "24 % more time", with the unit of work if it is not a step.
std::string more_time(double from, double to, WorkUnit work) {
  const double percent = (to / from - 1) * 100;
  const std::string what = work == WorkUnit::step ? "" : work == WorkUnit::sample ? " a sample" : " a token";
  return (percent < 0.5 ? "next to no more time" : fixed(percent, 0) + " % more time") + what;
}

std::string figures(const TrialResultRow& row) {
  return format_ms(row.measurement.step_ms.median) + " a step, " + required_text(row.measurement);
}

Recommendation answer(const TrialResultRow& row, std::string reason, bool fits) {
  return {row.measurement.strategy, std::move(reason), fits, row.batch, row.sequence};
}

using Better = bool (WorkNormalizedTrialComparator::*)(const TrialResultRow&, const TrialResultRow&) const;

const TrialResultRow& best_of(std::span<const TrialResultRow* const> rows, const WorkNormalizedTrialComparator& ranking,
                              Better better) {
  return **std::ranges::min_element(
      rows, [&](const TrialResultRow* a, const TrialResultRow* b) { return (ranking.*better)(*a, *b); });
}

class Recommender {
 public:
  Recommender(std::span<const TrialResultRow> rows, int64_t budget, RecommendationGoal goal)
      : rows_(rows), budget_(budget), goal_(goal), ranking_(rows) {
    candidates_ = choices(rows);
    if (candidates_.empty())
      for (const TrialResultRow& row : rows)
        if (usable(row.measurement)) candidates_.push_back(&row);
    std::ranges::copy_if(candidates_, std::back_inserter(fitting_),
                         [&](const TrialResultRow* row) { return budget <= 0 || required_bytes(*row) <= budget; });
    keep_the_longest();
  }

  Recommendation recommend() const {
    if (candidates_.empty()) return nothing_worked();
    if (fitting_.empty()) return nothing_fits();
    const TrialResultRow& chosen = choose(fitting_, ranking_, goal_);
    std::string reason = headline(chosen) + ": " + figures(chosen) + limit_text(chosen) + why_not_base(chosen);
    if (is_untimed(chosen.measurement))
      reason += "; its time is not known, because the CPU emulates the copies";
    else if (goal_ == RecommendationGoal::throughput)
      reason += next_price(chosen);
    return answer(chosen, reason + wrong_but_faster(chosen), true);
  }

 private:
  // A shorter sequence is different training, so only the longest sequence that fits is considered.
  void keep_the_longest() {
    const auto length = [](const TrialResultRow* row) { return row->sequence.value_or(0); };
    if (fitting_.empty()) return;
    const auto [shortest, longest] = std::ranges::minmax(fitting_, {}, length);
    if (length(shortest) == length(longest)) return;
    shorter_left_out_ = true;
    const int64_t most = length(longest);
    std::erase_if(fitting_, [&](const TrialResultRow* row) { return length(row) < most; });
    std::erase_if(candidates_, [&](const TrialResultRow* row) { return length(row) < most; });
  }

  Recommendation nothing_worked() const {
    const auto ended = [](const TrialResultRow& row) {
      return row.measurement.outcome != TrialOutcome::interrupted && row.measurement.outcome != TrialOutcome::skipped;
    };
    return {"", std::ranges::any_of(rows_, ended) ? "no trial worked" : "no trial has run to its end", false, {}, {}};
  }

  Recommendation nothing_fits() const {
    const TrialResultRow& least = best(candidates_, &WorkNormalizedTrialComparator::smaller);
    return answer(least,
                  "nothing fits " + format_bytes(budget_) + ": the least that works is " + spoken(least) + " with " +
                      format_bytes(required_bytes(least)),
                  false);
  }

  const TrialResultRow& best(const std::vector<const TrialResultRow*>& rows, Better better) const {
    return best_of(rows, ranking_, better);
  }

  std::string headline(const TrialResultRow& chosen) const {
    const TrialResultRow& fastest = best(fitting_, &WorkNormalizedTrialComparator::faster);
    const auto timed =
        std::ranges::count_if(fitting_, [](const TrialResultRow* row) { return !is_untimed(row->measurement); });
    const bool by_time = goal_ == RecommendationGoal::throughput && timed > 0;
    const auto count = by_time ? static_cast<size_t>(timed) : fitting_.size();
    std::string text;
    if (count == 1) {
      text = "the only one";
    } else if (!by_time) {
      text = "the least memory";
    } else if (&chosen == &fastest) {
      text = "the fastest";
    } else {
      const bool by_memory = required_bytes(chosen) < required_bytes(fastest);
      text = "as fast as " + spoken(fastest) + " within the noise" + interval_text(chosen, fastest) + ", and " +
             (by_memory ? "takes less memory;" : "changes less;");
    }
    if (count > 1) text += (text.ends_with(";") ? " one of " : " of ") + std::to_string(count);
    if (others_train_differently())
      text += count == 1 ? " that trains the same" : " that train the same";
    else if (budget_ <= 0)
      text += " that worked";
    if (budget_ > 0) text += " within " + format_bytes(budget_);
    if (by_time && count < fitting_.size()) text += " (offloads aside: the CPU emulates their copies)";
    if (shorter_left_out_) text += " at the longest sequence" + std::string(budget_ > 0 ? " that fits" : "");
    return text;
  }

  static std::string limit_text(const TrialResultRow& row) {
    const int64_t cap = row.measurement.cap_bytes;
    const std::string& allocator = row.measurement.allocator;
    return (cap > 0 && row.measurement.peak_bytes.device > 0 ? ", ran within " + format_bytes(cap) : "") +
           (allocator.empty() ? "" : std::string(" with ") + kAllocatorVariable + "=" + allocator);
  }

  bool others_train_differently() const {
    return std::ranges::any_of(
        rows_, [](const TrialResultRow& row) { return usable(row.measurement) && row.measurement.losses.changed; });
  }

  // " (0.93 to 1.04 × its time)" if there are several rounds.
  std::string interval_text(const TrialResultRow& row, const TrialResultRow& fastest) const {
    if (!have_rounds_in_common(row.measurement, fastest.measurement)) return "";
    const StepTimeRatioEstimate ratio = ranking_.ratio(row, fastest, ConfidenceIntervalLevel::percent99);
    if (ratio.high > kTellsNothing * ratio.low)
      return " of " + std::to_string(row.measurement.rounds.size()) + " rounds";
    return " (" + fixed(ratio.low, 2) + " to " + fixed(ratio.high, 2) + " × its time)";
  }

  // Why the baseline, the usual first choice, was not chosen.
  std::string why_not_base(const TrialResultRow& chosen) const {
    for (const TrialResultRow& row : rows_) {
      if (!is_base(row) || !same_axes(row, chosen)) continue;
      if (!worked(row)) return "; " + row.measurement.strategy + " ends in " + to_string(row.measurement.outcome);
      if (budget_ > 0 && required_bytes(row) > budget_)
        return "; " + row.measurement.strategy + " needs " + format_bytes(required_bytes(row));
      if (row.base && &row != &chosen) return "; " + row.measurement.strategy + " takes " + figures(row);
    }
    return "";
  }

  // The option that saves memory at the lowest time per byte: "checkpoint:full saves 23 GiB for 24 % more time".
  std::string next_price(const TrialResultRow& from) const {
    const TrialResultRow* best = nullptr;
    bool smaller_without_time = false;
    const auto price = [&](const TrialResultRow& row) {
      return (ranking_.time(row) - ranking_.time(from)) /
             static_cast<double>(required_bytes(from) - required_bytes(row));
    };
    for (const TrialResultRow* row : candidates_) {
      if (required_bytes(*row) >= required_bytes(from)) continue;
      if (is_untimed(row->measurement))
        smaller_without_time = true;
      else if (!best || price(*row) < price(*best))
        best = row;
    }
    if (!best && smaller_without_time) return "";
    if (!best) return candidates_.size() > 1 ? "; nothing needs less memory" : "";
    return "; " + spoken(*best) + " saves " + format_bytes(required_bytes(from) - required_bytes(*best)) + " for " +
           more_time(ranking_.time(from), ranking_.time(*best), ranking_.work());
  }

  // Explains why a faster row with wrong results was not chosen.
  std::string wrong_but_faster(const TrialResultRow& chosen) const {
    for (const TrialResultRow& row : rows_) {
      if (row.measurement.outcome == TrialOutcome::mismatch && ranking_.time(row) < ranking_.time(chosen))
        return "; " + spoken(row) + " is faster, but its gradients differ";
      if (row.measurement.losses.changed && usable(row.measurement) && ranking_.time(row) < ranking_.time(chosen))
        return "; " + spoken(row) + " is faster, but trains differently";
    }
    return "";
  }

  std::span<const TrialResultRow> rows_;
  int64_t budget_;
  RecommendationGoal goal_;
  WorkNormalizedTrialComparator ranking_;
  std::vector<const TrialResultRow*> candidates_, fitting_;  // rows that can be chosen; those that also fit the budget
  bool shorter_left_out_ = false;                            // rows with shorter sequences were removed
};

}  // namespace

std::string to_string(RecommendationGoal goal) { return kGoals[static_cast<size_t>(goal)]; }

RecommendationGoal parse_goal(const std::string& text) {
  const auto found = std::find(kGoals.begin(), kGoals.end(), text);
  if (found == kGoals.end()) throw UsageError(unknown_name("goal", text, kGoals));
  return static_cast<RecommendationGoal>(found - kGoals.begin());
}

const TrialResultRow& choose(std::span<const TrialResultRow* const> fitting,
                             const WorkNormalizedTrialComparator& ranking, RecommendationGoal goal) {
  if (goal == RecommendationGoal::memory) return best_of(fitting, ranking, &WorkNormalizedTrialComparator::smaller);
  const TrialResultRow& fastest = best_of(fitting, ranking, &WorkNormalizedTrialComparator::faster);
  std::vector<const TrialResultRow*> alike;  // with the fastest, whose interval may be damaged
  std::ranges::copy_if(fitting, std::back_inserter(alike), [&](const TrialResultRow* row) {
    const bool near = is_untimed(row->measurement) || ranking.time(*row) <= kMostNoise * ranking.time(fastest);
    return row == &fastest || (near && ranking.equally_fast(*row, fastest));
  });
  const double most =
      kSameMemory *
      static_cast<double>(required_bytes(best_of(alike, ranking, &WorkNormalizedTrialComparator::smaller)));
  const TrialResultRow* chosen = nullptr;
  for (const TrialResultRow* row : alike)
    if (static_cast<double>(required_bytes(*row)) <= most && (!chosen || changes_less(*row, *chosen))) chosen = row;
  return *chosen;
}

Recommendation recommend(std::span<const TrialResultRow> rows, int64_t budget_bytes, RecommendationGoal goal) {
  return Recommender(rows, budget_bytes, goal).recommend();
}

void mark_rows(std::span<TrialResultRow> rows, const Recommendation& recommendation) {
  mark_front(rows);
  for (TrialResultRow& row : rows) {
    row.recommended = recommendation.fits && row.measurement.strategy == recommendation.strategy &&
                      row.batch == recommendation.batch && row.sequence == recommendation.sequence;
  }
}

}  // namespace memtune::result
