#include "core/answer/report/ranks.h"

#include <algorithm>

#include "core/answer/result/metrics.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

using result::MetricColumnFormatter;
using result::RankMeasurement;
using result::TrialResultRow;

// A rank as a row, to format its figures like those of a trial.
TrialResultRow as_row(const RankMeasurement& rank) {
  TrialResultRow row;
  row.measurement.step_ms = rank.step_ms;
  row.measurement.peak_bytes = rank.peak_bytes;
  row.measurement.optimizer_ms = rank.optimizer_ms;
  row.measurement.communication.exposed_ms = rank.exposed_communication_ms;
  return row;
}

}  // namespace

const TrialResultRow* rank_row(const Report& report) {
  const auto recommended = std::ranges::find_if(report.rows, &TrialResultRow::recommended);
  const TrialResultRow* row = recommended != report.rows.end() ? &*recommended
                              : report.rows.size() == 1        ? &report.rows.front()
                                                               : nullptr;
  return row && !row->measurement.ranks.empty() ? row : nullptr;
}

std::vector<TableColumn> rank_columns(const Report& report) {
  const TrialResultRow* row = rank_row(report);
  if (!row) return {};
  std::vector<TrialResultRow> rows;
  TableColumn names{"rank", TableColumn::kAlways, true, {}, 1, ""};
  for (const RankMeasurement& rank : row->measurement.ranks) {
    names.cells.push_back({std::to_string(rank.rank)});
    rows.push_back(as_row(rank));
  }
  const std::vector<const TrialResultRow*> pointers = result::pointers_to(rows);
  std::vector<TableColumn> columns = {names};
  for (const char* key : {"step_ms", "peak_allocated_bytes", "peak_reserved_bytes", "peak_device_bytes", "optimizer_ms",
                          "exposed_communication_ms"}) {
    const MetricColumnFormatter metric(result::metric(key), pointers);
    TableColumn column{metric.head(), TableColumn::kAlways, false, {}, 2, ""};
    for (const TrialResultRow* each : pointers) column.cells.push_back({metric.text(each->measurement)});
    const auto nothing = [](const TableCell& cell) { return cell.text == result::kNothing; };
    if (!std::ranges::all_of(column.cells, nothing)) columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace memtune::report
