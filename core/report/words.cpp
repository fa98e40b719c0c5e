#include "core/report/words.h"

#include <algorithm>

#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/report/text/columns.h"
#include "core/result/ranking.h"

namespace memtune::report {
namespace {

using result::Row;

// Names the trials, unless it is every one of them, as on a busy machine.
std::string noisy_times(const std::vector<const Row*>& rows) {
  double most = 0;
  std::vector<std::string> names;
  for (const Row* row : rows) {
    if (!row->measurement.noisy) continue;
    most = std::max(most, spread(row->measurement.step_ms));
    names.push_back(label(*row));
  }
  if (names.empty()) return "";
  const std::string whose = names.size() == rows.size() ? "" : " of " + join(names, "; ");
  return "steps" + whose + " vary by " + (names.size() > 1 ? "up to " : "") + fixed(100 * most, 0) +
         " %: times that differ by less may be the same";
}

std::vector<const Row*> rows_that_worked(const Report& report) {
  std::vector<const Row*> rows = ranked(report.rows);
  std::erase_if(rows, [](const Row* row) { return !worked(*row); });
  return rows;
}

}  // namespace

std::string failure_text(const Row& row) {
  const result::Measurement& m = row.measurement;
  return result::label(to_string(m.outcome), row.batch, row.sequence) + (m.reason.empty() ? "" : ": " + m.reason);
}

std::string device_text(const Report& report) {
  return report.device + (report.emulated ? ", playing the device (emulation)" : "");
}

std::vector<std::string> legend(const Report& report) {
  const std::vector<const Row*> rows = rows_that_worked(report);
  const auto any = [&](bool Row::*mark) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row* row) { return row->*mark; });
  };
  std::vector<std::string> parts;
  if (any(&Row::recommended)) parts.push_back("* recommended");
  if (any(&Row::pareto)) parts.push_back("• no other is both faster and smaller");
  if (!rows.empty() && reference_label(report) != report.reference) parts.push_back("ref: " + report.reference);
  return parts;
}

Verdict verdict(const Report& report) {
  const result::Recommendation& advice = report.recommendation;
  if (advice.strategy.empty() && advice.reason.empty()) return {};
  if (!advice.fits || advice.strategy.empty()) return {"No recommendation", advice.reason, false};
  const std::string name = result::label(advice.strategy, advice.batch, advice.sequence);
  return {"Recommended", name + (advice.reason.empty() ? "" : ": " + advice.reason), true};
}

std::vector<std::string> notes(const Report& report) {
  const std::vector<const Row*> rows = rows_that_worked(report);
  std::vector<std::string> notes = report.notes;
  if (std::string noisy = noisy_times(rows); !noisy.empty()) notes.push_back(std::move(noisy));
  const auto nearly_equal = [](const Row* row) {
    return row->measurement.gradients.compared && !row->measurement.gradients.equal;
  };
  if (std::any_of(rows.begin(), rows.end(), nearly_equal)) {
    notes.push_back("the gradients of " + report.reference +
                    " differ from run to run; those marked ≈ differ from them by no more than that");
  }
  if (report.emulated) {
    notes.push_back(
        "an emulation: the processor plays the device. Good for comparing memory and for checking gradients; "
        "times and overlap are the processor's and say nothing about a GPU");
  }
  return notes;
}

}  // namespace memtune::report
