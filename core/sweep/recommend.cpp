#include "core/sweep/recommend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

using report::Recommendation;
using report::Row;
using result::Measurement;

constexpr double kAsFast = 1.01;  // closer than steps are measured: the smaller peak decides

const std::array<std::string, 2> kGoals = {"throughput", "memory"};

// Time for the same amount of work, comparable over batch sizes and sequence lengths.
double cost(const Measurement& trial) {
  if (trial.tokens_per_s > 0) return 1000 / trial.tokens_per_s;
  if (trial.samples_per_s > 0) return 1000 / trial.samples_per_s;
  return trial.step_ms.median;
}

int64_t peak(const Measurement& trial) { return trial.peak_bytes.allocated; }

bool faster(const Row* a, const Row* b) {
  const double cost_a = cost(a->measurement), cost_b = cost(b->measurement);
  return cost_a != cost_b ? cost_a < cost_b : peak(a->measurement) < peak(b->measurement);
}

bool smaller(const Row* a, const Row* b) {
  const int64_t peak_a = peak(a->measurement), peak_b = peak(b->measurement);
  return peak_a != peak_b ? peak_a < peak_b : cost(a->measurement) < cost(b->measurement);
}

std::string label(const Row& row) {
  std::string text = row.measurement.strategy;
  if (row.batch) text += " at batch " + std::to_string(*row.batch);
  if (row.sequence) text += (row.batch ? ", sequence " : " at sequence ") + std::to_string(*row.sequence);
  return text;
}

std::string format_ms(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 1000 ? "%.4g ms" : "%.0f ms", ms);
  return text;
}

std::string figures(const Row& row) {
  return format_ms(row.measurement.step_ms.median) + " a step, " + format_bytes(peak(row.measurement)) + " at the peak";
}

std::string more_time(const Row& from, const Row& to) {
  const double percent = (cost(to.measurement) / cost(from.measurement) - 1) * 100;
  char text[48];
  if (percent < 0.5) return "next to no time";
  std::snprintf(text, sizeof text, "%.0f %% more time", percent);
  return text;
}

// The cheapest way, in time a byte, to less memory than `from` needs: "checkpoint:full saves 23 GiB for 24 % more
// time".
std::string next_price(const std::vector<const Row*>& candidates, const Row& from) {
  const Row* best = nullptr;
  const auto price = [&](const Row& row) {
    return (cost(row.measurement) - cost(from.measurement)) /
           static_cast<double>(peak(from.measurement) - peak(row.measurement));
  };
  for (const Row* row : candidates) {
    if (peak(row->measurement) < peak(from.measurement) && (!best || price(*row) < price(*best))) best = row;
  }
  if (!best) return candidates.size() > 1 ? "; nothing needs less memory" : "";
  return "; " + label(*best) + " saves " + format_bytes(peak(from.measurement) - peak(best->measurement)) + " for " +
         more_time(from, *best);
}

// Why the baseline, the usual first choice, is not the answer.
std::string why_not_none(std::span<const Row> rows, const Row& chosen, int64_t budget) {
  for (const Row& row : rows) {
    const Measurement& trial = row.measurement;
    if (trial.strategy != "none" || row.batch != chosen.batch || row.sequence != chosen.sequence) continue;
    if (trial.outcome != result::Outcome::ok) return "; none ends in " + to_string(trial.outcome);
    if (budget > 0 && peak(trial) > budget) return "; none needs " + format_bytes(peak(trial));
  }
  return "";
}

// Wrong results must not be chosen for their speed, and whoever reads the table should know why they were not.
std::string wrong_but_faster(std::span<const Row> rows, const Row& chosen) {
  for (const Row& row : rows) {
    const Measurement& trial = row.measurement;
    if (trial.outcome == result::Outcome::mismatch && cost(trial) > 0 && cost(trial) < cost(chosen.measurement)) {
      return "; " + label(row) + " is faster, but its gradients differ";
    }
  }
  return "";
}

const Row* choose(const std::vector<const Row*>& fitting, Goal goal) {
  if (goal == Goal::memory) return *std::min_element(fitting.begin(), fitting.end(), smaller);
  const Row* fastest = *std::min_element(fitting.begin(), fitting.end(), faster);
  const Row* chosen = fastest;
  for (const Row* row : fitting) {
    if (cost(row->measurement) <= cost(fastest->measurement) * kAsFast && smaller(row, chosen)) chosen = row;
  }
  return chosen;
}

std::string headline(const std::vector<const Row*>& fitting, const Row& chosen, int64_t budget, Goal goal) {
  const Row* fastest = *std::min_element(fitting.begin(), fitting.end(), faster);
  std::string text;
  if (fitting.size() == 1) {
    text = "the only one";
  } else if (goal == Goal::memory) {
    text = "the least memory";
  } else if (&chosen == fastest) {
    text = "the fastest";
  } else {
    text = "as fast as " + label(*fastest) + " with " +
           format_bytes(peak(fastest->measurement) - peak(chosen.measurement)) + " less";
  }
  if (fitting.size() > 1) text += " of " + std::to_string(fitting.size());
  return budget > 0 ? text + " within " + format_bytes(budget) : text + " that worked";
}

Recommendation answer(const Row& row, std::string reason, bool fits) {
  return {row.measurement.strategy, std::move(reason), fits, row.batch, row.sequence};
}

}  // namespace

std::string to_string(Goal goal) { return kGoals[static_cast<size_t>(goal)]; }

Goal parse_goal(const std::string& text) {
  const auto found = std::find(kGoals.begin(), kGoals.end(), text);
  if (found == kGoals.end()) throw UsageError(unknown_name("goal", text, kGoals));
  return static_cast<Goal>(found - kGoals.begin());
}

bool usable(const Measurement& trial) {
  return trial.outcome == result::Outcome::ok && std::isfinite(cost(trial)) && cost(trial) > 0;
}

Recommendation recommend(std::span<const Row> rows, int64_t budget, Goal goal) {
  std::vector<const Row*> candidates, fitting;
  for (const Row& row : rows) {
    if (!usable(row.measurement)) continue;
    candidates.push_back(&row);
    if (budget <= 0 || peak(row.measurement) <= budget) fitting.push_back(&row);
  }
  const auto ended = [](const Row& row) { return row.measurement.outcome != result::Outcome::interrupted; };
  if (candidates.empty()) {
    return {"",
            std::any_of(rows.begin(), rows.end(), ended) ? "no trial worked" : "no trial has run to its end",
            false,
            {},
            {}};
  }
  if (fitting.empty()) {
    const Row* least = *std::min_element(candidates.begin(), candidates.end(), smaller);
    return answer(*least,
                  "nothing fits " + format_bytes(budget) + ": the least that works is " + label(*least) + " with " +
                      format_bytes(peak(least->measurement)),
                  false);
  }
  const Row* chosen = choose(fitting, goal);
  std::string reason = headline(fitting, *chosen, budget, goal) + ": " + figures(*chosen);
  reason += why_not_none(rows, *chosen, budget);
  if (goal == Goal::throughput) reason += next_price(candidates, *chosen);
  return answer(*chosen, reason + wrong_but_faster(rows, *chosen), true);
}

void mark_rows(std::span<Row> rows, const Recommendation& recommendation) {
  const auto beats = [](const Row& a, const Row& b) {  // as good in both, better in one
    const double cost_a = cost(a.measurement), cost_b = cost(b.measurement);
    const int64_t peak_a = peak(a.measurement), peak_b = peak(b.measurement);
    return usable(a.measurement) && a.batch == b.batch && a.sequence == b.sequence && cost_a <= cost_b &&
           peak_a <= peak_b && (cost_a < cost_b || peak_a < peak_b);
  };
  for (Row& row : rows) {
    row.pareto = usable(row.measurement) &&
                 std::none_of(rows.begin(), rows.end(), [&](const Row& other) { return beats(other, row); });
    row.recommended = row.measurement.strategy == recommendation.strategy && row.batch == recommendation.batch &&
                      row.sequence == recommendation.sequence;
  }
}

}  // namespace memtune::sweep
