#include <algorithm>
#include <functional>

#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/findings/finding_rules.h"

namespace memtune::findings {
namespace {

constexpr double kSameMemory = 1.02;             // a little more is as good
constexpr int64_t kOwnBytes = int64_t{1} << 20;  // a step: batches and losses, which every training copies

// The fastest that worked, trains the same and needs no more memory; null where none is faster by more than noise.
const result::Row* better_than(const result::Row& row, std::span<const result::Row> rows) {
  const result::Row* best = nullptr;
  for (const result::Row& other : rows) {
    if (&other == &row || !worked(other) || other.measurement.losses.changed) continue;
    if (static_cast<double>(peak(other)) > kSameMemory * static_cast<double>(peak(row))) continue;
    if (other.measurement.step_ms.high >= row.measurement.step_ms.low) continue;
    if (!best || other.measurement.step_ms.median < best->measurement.step_ms.median) best = &other;
  }
  return best;
}

std::string advice_for(const result::Row& row, std::span<const result::Row> rows) {
  const result::Row* other = better_than(row, rows);
  if (!other) return "";
  const double gained = row.measurement.step_ms.median - other->measurement.step_ms.median;
  return other->measurement.strategy + " takes no more memory, and " + ms_text(gained) + " less";
}

}  // namespace

std::vector<Finding> of_variants(std::span<const result::Row> rows) {
  std::vector<Finding> findings;
  for (const result::Row& row : rows) {
    const result::TransferFigures& transfer = row.measurement.transfer;
    if (!worked(row) || transfer.out_bytes < kOwnBytes) continue;
    Finding finding;
    finding.weight = transfer.exposed_ms / row.measurement.step_ms.median;
    if (finding.weight < kWorthTelling) continue;
    finding.severity = finding.weight >= kGrave ? Severity::problem : Severity::advice;
    finding.rule = "copies-exposed";
    finding.what = row.measurement.strategy + ": copies hold the device up for " + ms_text(transfer.exposed_ms) +
                   " a step, " + fixed(100 * transfer.hidden, 0) + " % of them under compute";
    finding.advice = advice_for(row, rows);
    finding.ms_per_step = transfer.exposed_ms;
    finding.evidence.strategy = row.measurement.strategy;
    findings.push_back(std::move(finding));
  }
  std::ranges::stable_sort(findings, std::greater<>(), &Finding::weight);
  return findings;
}

}  // namespace memtune::findings
