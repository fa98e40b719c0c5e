#include "cli/plan_table.h"

#include <algorithm>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::cli {
namespace {

std::string cell(const plan::PlacementTotals& sum, bool measured) {
  if (sum.values == 0) return "–";
  return std::to_string(sum.values) + (measured ? ", " + format_bytes(sum.bytes) : "");
}

}  // namespace

std::string summary_table(const plan::PlanSummary& summary) {
  std::vector<plan::BlockRangeSummary> rows = summary.rows;
  rows.push_back(summary.total);
  std::vector<std::string> lines = {"  blocks"};
  for (const plan::BlockRangeSummary& row : rows) lines.push_back("  " + row.blocks);
  const auto pad_lines = [&] {
    int width = 0;
    for (const std::string& line : lines) width = std::max(width, display_width(line));
    for (std::string& line : lines) line = pad_right(line, width + 3);
  };
  for (size_t place = 0; place < summary.total.sums.size(); ++place) {
    if (summary.total.sums[place].values == 0) continue;
    pad_lines();
    lines[0] += to_string(static_cast<plan::TensorPlacement>(place));
    for (size_t i = 0; i < rows.size(); ++i) lines[i + 1] += cell(rows[i].sums[place], summary.measured);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace memtune::cli
