#include "core/answer/report/ranks.h"

#include <algorithm>

#include "core/base/layout.h"
#include "core/answer/result/figures.h"

namespace memtune::report {
namespace {

using result::FigureColumn;
using result::RankShare;
using result::Row;

// A rank as a row, to format its figures like those of a trial.
Row as_row(const RankShare& rank) {
  Row row;
  row.measurement.step_ms = rank.step_ms;
  row.measurement.peak_bytes = rank.peak_bytes;
  row.measurement.optimizer_ms = rank.optimizer_ms;
  row.measurement.communication.exposed_ms = rank.exposed_communication_ms;
  return row;
}

}  // namespace

const Row* rank_row(const Report& report) {
  const auto recommended = std::ranges::find_if(report.rows, &Row::recommended);
  const Row* row = recommended != report.rows.end() ? &*recommended
                   : report.rows.size() == 1        ? &report.rows.front()
                                                    : nullptr;
  return row && !row->measurement.ranks.empty() ? row : nullptr;
}

std::vector<Column> rank_columns(const Report& report) {
  const Row* row = rank_row(report);
  if (!row) return {};
  std::vector<Row> rows;
  Column names{"rank", Column::kAlways, true, {}, 1, ""};
  for (const RankShare& rank : row->measurement.ranks) {
    names.cells.push_back({std::to_string(rank.rank)});
    rows.push_back(as_row(rank));
  }
  const std::vector<const Row*> pointers = result::pointers_to(rows);
  std::vector<Column> columns = {names};
  for (const char* key : {"step_ms", "peak_allocated_bytes", "peak_reserved_bytes", "peak_device_bytes", "optimizer_ms",
                          "exposed_communication_ms"}) {
    const FigureColumn figure(result::figure(key), pointers);
    Column column{figure.head(), Column::kAlways, false, {}, 2, ""};
    for (const Row* each : pointers) column.cells.push_back({figure.text(each->measurement)});
    const auto nothing = [](const Cell& cell) { return cell.text == result::kNothing; };
    if (!std::ranges::all_of(column.cells, nothing)) columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace memtune::report
