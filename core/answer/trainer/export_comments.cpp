#include "core/answer/trainer/export_comments.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/answer/result/rounds.h"
#include "core/base/allocator_settings.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/base/torch_version.h"
#include "core/base/utf8.h"

namespace memtune::trainer {
namespace {

using report::Report;
using result::TrialMeasurement;
using result::TrialResultRow;

std::string step_text(const TrialResultRow& row, const TrialResultRow* base) {
  const result::StepTimeStats& step = row.measurement.step_ms;
  std::string text =
      "step " + fixed(step.median, 1) + " ms (" + fixed(step.low, 1) + " to " + fixed(step.high, 1) + ")";
  if (base && base != &row && base->measurement.step_ms.median > 0) {
    const double ratio = ratio_of(row.measurement, base->measurement).value;
    text += ", " + fixed(ratio, 2) + " x " + base->measurement.strategy;
  }
  return text;
}

std::string peak_text(const TrialResultRow& row, const TrialResultRow* base) {
  const int64_t peak = row.measurement.peak_bytes.allocated;
  std::string text = "peak " + format_bytes(peak);
  if (row.measurement.peak_bytes.device > 0)
    text += " allocated, " + format_bytes(row.measurement.peak_bytes.device) + " on the device";
  if (!base || base == &row) return text;
  const int64_t saved = base->measurement.peak_bytes.allocated - peak;
  return text + ", " + format_bytes(std::abs(saved)) + (saved < 0 ? " more than " : " less than ") +
         base->measurement.strategy;
}

// Python reads "coding: utf-7" in the first two comment lines as the file's encoding. A blank before the colon prevents
// that.
std::string without_coding(std::string text) {
  for (size_t at = 0; (at = text.find("coding", at)) != std::string::npos; ++at)
    if (const size_t behind = at + 6; text[behind] == ':' || text[behind] == '=') text.insert(behind, " ");
  return text;
}

}  // namespace

void ExportComments::put(const std::string& label, const std::string& value) {
  if (value.empty()) return;
  std::string lead = "# " + label;
  for (const std::string& line : wrap(without_coding(printable_line(value)), 100 - display_width(lead))) {
    lines_.push_back(lead + line);
    lead = "#" + std::string(display_width(lead) - 1, ' ');
  }
}

void ExportComments::put_circumstances(const Report& report) {
  put(is_of_commands(report) ? "command:   " : "model:     ", report.model);
  put("settings:  ", report.settings);
  put("device:    ", report.device + (report.emulated ? " (a CPU emulates a GPU: the times are no GPU's)" : ""));
  const std::string untested = untested_on_gpu(report.origin.torch);
  if (std::ranges::count(report.notes, untested) > 0) put("note:      ", untested);
}

std::string measured_text(const TrialResultRow& row, const Report& report) {
  const TrialResultRow* base = reference_row(report, row);
  return step_text(row, base) + "; " + peak_text(row, base);
}

std::string environment_text(const TrialResultRow& row) {
  const std::string& allocator = row.measurement.allocator;
  return allocator.empty() ? ""
                           : std::string("the environment ") + kAllocatorVariable + "=" + allocator +
                                 ", without which it ran out of memory";
}

std::string difference_text(const TrialResultRow& asked, const TrialResultRow& row) {
  const double before = asked.measurement.step_ms.median, ms = row.measurement.step_ms.median - before;
  const int64_t bytes = row.measurement.peak_bytes.allocated - asked.measurement.peak_bytes.allocated;
  const std::string share = before > 0 ? " (" + fixed(100 * std::abs(ms) / before, 1) + " %)" : "";
  return "a step takes " + fixed(std::abs(ms), 1) + " ms" + share + (ms < 0 ? " less" : " longer") + ", the peak is " +
         format_bytes(std::abs(bytes)) + (bytes > 0 ? " higher" : " lower");
}

std::string gradients_text(const TrialMeasurement& m) {
  if (!m.gradients.compared) return "not compared";
  if (m.gradients.equal) return "equal to those of " + m.gradients.against;
  return "differ from those of " + m.gradients.against + " in " + m.gradients.worst +
         ", by no more than its own runs do";
}

}  // namespace memtune::trainer
