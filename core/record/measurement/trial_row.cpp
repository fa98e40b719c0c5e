#include "core/record/measurement/trial_row.h"

#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::result {

bool worked(const TrialRow& row) { return row.measurement.outcome == Outcome::ok; }

bool is_base(const TrialRow& row) { return row.base || row.measurement.strategy == "none"; }

bool is_planned(const TrialRow& row) { return row.measurement.strategy.starts_with("plan:"); }

int64_t peak(const TrialRow& row) { return row.measurement.peak_bytes.allocated; }

int64_t required_bytes(const TrialRow& row) { return required_bytes(row.measurement); }

bool same_axes(const TrialRow& a, const TrialRow& b) { return a.batch == b.batch && a.sequence == b.sequence; }

bool same_trial(const TrialRow& a, const TrialRow& b) {
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

std::string label(const TrialRow& row) { return label(row.measurement.strategy, row.batch, row.sequence); }

std::vector<const TrialRow*> pointers_to(std::span<const TrialRow> rows) {
  std::vector<const TrialRow*> pointers;
  for (const TrialRow& row : rows) pointers.push_back(&row);
  return pointers;
}

}  // namespace memtune::result
