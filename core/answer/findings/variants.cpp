#include <algorithm>
#include <cmath>
#include <functional>

#include "core/answer/findings/finding_rules.h"
#include "core/answer/result/effect.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::findings {
namespace {

constexpr double kSameMemory = 1.02;                   // a little more memory counts as the same
constexpr double kSamePeak = 0.001;                    // of the allocator, whose peak is reproducible
constexpr double kSameTime = 0.02;                     // few rounds give an interval that is too wide
constexpr int64_t kOwnBytesOfStep = int64_t{1} << 20;  // per step: batches and losses, which every training copies

// The fastest variant that worked, trains the same and needs no more memory. Null if none is faster by more than noise,
// or if steps do different work.
const result::TrialResultRow* better_than(const result::TrialResultRow& row,
                                          std::span<const result::TrialResultRow> rows) {
  if (result::WorkNormalizedTrialComparator(rows).work() != result::WorkUnit::step) return nullptr;
  const result::TrialResultRow* best = nullptr;
  for (const result::TrialResultRow* other : result::choices(rows)) {
    if (other == &row || static_cast<double>(peak(*other)) > kSameMemory * static_cast<double>(peak(row))) continue;
    if (other->measurement.step_ms.high >= row.measurement.step_ms.low) continue;
    if (!best || other->measurement.step_ms.median < best->measurement.step_ms.median) best = other;
  }
  return best;
}

std::string advice_for(const result::TrialResultRow& row, std::span<const result::TrialResultRow> rows) {
  const result::TrialResultRow* other = better_than(row, rows);
  if (!other) return "";
  const double gained = row.measurement.step_ms.median - other->measurement.step_ms.median;
  return other->measurement.strategy + " takes no more memory, and " + ms_text(gained) + " less";
}

// Settings of the trainer that change nothing here. A CPU's peak is resident memory, which would not show a change.
void tell_without_effect(std::span<const result::TrialResultRow> rows, std::vector<Finding>& findings) {
  const auto base =
      std::ranges::find_if(rows, [](const result::TrialResultRow& row) { return is_base(row) && worked(row); });
  if (base == rows.end() || base->measurement.device.starts_with("CPU")) return;
  const result::WorkNormalizedTrialComparator ranking(rows);
  std::vector<std::string> names;
  for (const result::TrialResultRow& row : rows) {
    const double apart = static_cast<double>(peak(row)) / static_cast<double>(peak(*base)) - 1;
    if (&row == &*base || !worked(row) || std::abs(apart) > kSamePeak) continue;
    if (ranking.equally_fast(row, *base) && std::abs(ranking.ratio(row, *base).value - 1) <= kSameTime)
      names.push_back(row.measurement.strategy);
  }
  if (names.empty()) return;
  Finding finding;
  finding.rule = "variant-without-effect";
  finding.what = join(names, ", ") + (names.size() == 1 ? " takes" : " take") + " the same time and memory as " +
                 base->measurement.strategy;
  finding.evidence.strategy = names.front();
  findings.push_back(std::move(finding));
}

void tell_exposed_copies(std::span<const result::TrialResultRow> rows, std::vector<Finding>& findings) {
  for (const result::TrialResultRow& row : rows) {
    const result::StepHostDeviceCopyStats& transfer = row.measurement.transfer;
    if (!worked(row) || transfer.out_bytes < kOwnBytesOfStep) continue;
    Finding finding;
    finding.weight = transfer.exposed_ms / row.measurement.step_ms.median;
    if (finding.weight < kSignificantShare) continue;
    finding.severity = finding.weight >= kSevereShare ? Severity::problem : Severity::advice;
    finding.rule = "copies-exposed";
    finding.what = row.measurement.strategy + ": copies are exposed for " + ms_text(transfer.exposed_ms) + " a step, " +
                   fixed(100 * transfer.hidden, 0) + " % of their time overlaps compute";
    finding.advice = advice_for(row, rows);
    finding.ms_per_step = transfer.exposed_ms;
    finding.evidence.strategy = row.measurement.strategy;
    findings.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> variant_findings(std::span<const result::TrialResultRow> rows) {
  std::vector<Finding> findings;
  tell_exposed_copies(rows, findings);
  tell_without_effect(rows, findings);
  std::ranges::stable_sort(findings, std::greater<>(), &Finding::weight);
  return findings;
}

}  // namespace memtune::findings
