#include "core/answer/result/memory_price.h"

#include "core/answer/result/effect.h"
#include "core/answer/result/ranking.h"

namespace memtune::result {
namespace {

constexpr double kGiB = 1 << 30;

MemoryPrice price_of(const Row& row, const Row& chosen, const Ranking& ranking) {
  const double share = 1 - ranking.time(row) / ranking.time(chosen);
  const double saved_ms = share * chosen.measurement.step_ms.median;
  return {&row, saved_ms, saved_ms / (static_cast<double>(peak(row) - peak(chosen)) / kGiB)};
}

}  // namespace

std::optional<MemoryPrice> price_of_more(std::span<const Row> rows, const Row& chosen, int64_t budget_bytes) {
  if (budget_bytes <= 0 || peak(chosen) > budget_bytes) return {};
  const Ranking ranking(rows);
  std::optional<MemoryPrice> best;
  for (const Row* row : choices(rows)) {
    if (!same_axes(*row, chosen) || peak(*row) <= budget_bytes) continue;
    if (!ranking.faster(*row, chosen) || ranking.as_fast(*row, chosen)) continue;
    const MemoryPrice price = price_of(*row, chosen, ranking);
    if (!best || price.ms_per_gib > best->ms_per_gib) best = price;
  }
  return best;
}

}  // namespace memtune::result
