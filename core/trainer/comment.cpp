#include "core/trainer/comment.h"

#include <cstdlib>

#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/result/ranking.h"

namespace memtune::trainer {

using report::Report;
using result::Row;

void put_comment(std::string& text, const std::string& label, const std::string& value) {
  if (value.empty()) return;
  std::string lead = "# " + label;
  for (const std::string& line : wrap(printable(value), 100 - display_width(lead))) {
    text += lead + line + "\n";
    lead = "#" + std::string(display_width(lead) - 1, ' ');
  }
}

namespace {

std::string step_text(const Row& row, const Row* base) {
  const result::StepTime& step = row.measurement.step_ms;
  std::string text =
      "step " + fixed(step.median, 1) + " ms (" + fixed(step.low, 1) + " to " + fixed(step.high, 1) + ")";
  if (base && base != &row && base->measurement.step_ms.median > 0) {
    const double ratio = ratio_of(row.measurement, base->measurement).value;
    text += ", " + fixed(ratio, 2) + " x " + base->measurement.strategy;
  }
  return text;
}

std::string peak_text(const Row& row, const Row* base) {
  int64_t peak = row.measurement.peak_bytes.allocated;
  std::string text = "peak " + format_bytes(peak);
  if (!base || base == &row) return text;
  int64_t saved = base->measurement.peak_bytes.allocated - peak;
  return text + ", " + format_bytes(std::abs(saved)) + (saved < 0 ? " more than " : " less than ") +
         base->measurement.strategy;
}

}  // namespace

std::string measured_text(const Row& row, const Report& report) {
  const Row* base = reference_row(report, row);
  return step_text(row, base) + "; " + peak_text(row, base);
}

}  // namespace memtune::trainer
