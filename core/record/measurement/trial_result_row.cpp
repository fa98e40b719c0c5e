#include "core/record/measurement/trial_result_row.h"

#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::result {

bool worked(const TrialResultRow& row) { return row.measurement.outcome == TrialOutcome::ok; }

bool is_base(const TrialResultRow& row) { return row.base || row.measurement.strategy == "none"; }

bool is_planned(const TrialResultRow& row) { return row.measurement.strategy.starts_with("plan:"); }

int64_t peak(const TrialResultRow& row) { return row.measurement.peak_bytes.allocated; }

int64_t required_bytes(const TrialResultRow& row) { return required_bytes(row.measurement); }

bool same_axes(const TrialResultRow& a, const TrialResultRow& b) {
  return a.batch == b.batch && a.sequence == b.sequence;
}

bool same_trial(const TrialResultRow& a, const TrialResultRow& b) {
  return a.measurement.strategy == b.measurement.strategy && same_axes(a, b);
}

std::string axes_text(std::optional<int64_t> batch, std::optional<int64_t> sequence) {
  std::vector<std::string> axes;
  if (batch) axes.push_back("batch " + std::to_string(*batch));
  if (sequence) axes.push_back("seq " + std::to_string(*sequence));
  return join(axes, ", ");
}

std::string label(const std::string& strategy, std::optional<int64_t> batch, std::optional<int64_t> sequence) {
  const std::string axes = axes_text(batch, sequence);
  return printable_line(strategy) + (axes.empty() ? "" : ", " + axes);
}

std::string label(const TrialResultRow& row) { return label(row.measurement.strategy, row.batch, row.sequence); }

std::vector<const TrialResultRow*> pointers_to(std::span<const TrialResultRow> rows) {
  std::vector<const TrialResultRow*> pointers;
  for (const TrialResultRow& row : rows) pointers.push_back(&row);
  return pointers;
}

}  // namespace memtune::result
