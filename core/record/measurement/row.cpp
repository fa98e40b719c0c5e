#include "core/record/measurement/row.h"

#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::result {

bool worked(const Row& row) { return row.measurement.outcome == Outcome::ok; }

bool is_base(const Row& row) { return row.base || row.measurement.strategy == "none"; }

bool is_planned(const Row& row) { return row.measurement.strategy.starts_with("plan:"); }

int64_t peak(const Row& row) { return row.measurement.peak_bytes.allocated; }

bool same_axes(const Row& a, const Row& b) { return a.batch == b.batch && a.sequence == b.sequence; }

bool same_trial(const Row& a, const Row& b) {
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

std::string label(const Row& row) { return label(row.measurement.strategy, row.batch, row.sequence); }

std::vector<const Row*> pointers_to(std::span<const Row> rows) {
  std::vector<const Row*> pointers;
  for (const Row& row : rows) pointers.push_back(&row);
  return pointers;
}

}  // namespace memtune::result
