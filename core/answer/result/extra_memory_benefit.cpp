#include "core/answer/result/extra_memory_benefit.h"

#include "core/answer/result/effect.h"
#include "core/answer/result/work_normalized_trial_comparator.h"

namespace memtune::result {
namespace {

constexpr double kGiB = 1 << 30;

ExtraMemoryBenefit price_of(const TrialResultRow& row, const TrialResultRow& chosen,
                            const WorkNormalizedTrialComparator& ranking) {
  const double share = 1 - ranking.time(row) / ranking.time(chosen);
  const double saved_ms = share * chosen.measurement.step_ms.median;
  return {&row, saved_ms, saved_ms / (static_cast<double>(required_bytes(row) - required_bytes(chosen)) / kGiB)};
}

}  // namespace

std::optional<ExtraMemoryBenefit> benefit_of_more_memory(std::span<const TrialResultRow> rows,
                                                         const TrialResultRow& chosen, int64_t budget_bytes) {
  if (budget_bytes <= 0 || required_bytes(chosen) > budget_bytes) return {};
  const WorkNormalizedTrialComparator ranking(rows);
  std::optional<ExtraMemoryBenefit> best;
  for (const TrialResultRow* row : choices(rows)) {
    if (!same_axes(*row, chosen) || is_untimed(row->measurement) || required_bytes(*row) <= budget_bytes) continue;
    if (!ranking.faster(*row, chosen) || ranking.equally_fast(*row, chosen)) continue;
    const ExtraMemoryBenefit price = price_of(*row, chosen, ranking);
    if (!best || price.ms_per_gib > best->ms_per_gib) best = price;
  }
  return best;
}

}  // namespace memtune::result
