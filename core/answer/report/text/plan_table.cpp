#include "core/answer/report/text/plan_table.h"

#include <vector>

#include "core/answer/report/text/columns.h"
#include "core/base/bytes.h"

namespace memtune::report {
namespace {

std::string cell(const plan::PlacementTotal& sum, bool measured) {
  if (sum.values == 0) return "–";
  return std::to_string(sum.values) + (measured ? ", " + format_bytes(sum.bytes) : "");
}

}  // namespace

std::string summary_table(const plan::PlanPlacementSummary& summary) {
  std::vector<report::TableColumn> columns = {{"blocks", 0, true}};
  for (size_t place = 0; place < summary.total.sums.size(); ++place)
    if (summary.total.sums[place].values > 0)
      columns.push_back({to_string(static_cast<plan::TensorPlacement>(place)), 0, true, {}, 3});
  std::vector<plan::BlockRangePlacementTotals> rows = summary.rows;
  rows.push_back(summary.total);
  for (const plan::BlockRangePlacementTotals& row : rows) {
    std::vector<std::string> cells = {row.blocks};
    for (size_t place = 0; place < row.sums.size(); ++place)
      if (summary.total.sums[place].values > 0) cells.push_back(cell(row.sums[place], summary.measured));
    report::add_row(columns, std::move(cells));
  }
  std::string text = report::heads_text(columns);
  for (size_t row = 0; row < rows.size(); ++row) text += report::row_text(columns, row);
  return text;
}

}  // namespace memtune::report
