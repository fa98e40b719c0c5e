// Explains the figures to a reader new to memtune: what each means, how it was measured and why this answer. All
// formats share these texts.
#pragma once

#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/report/text/columns.h"
#include "core/record/trace/trace_event.h"

namespace memtune::report {

struct ReportLabelAndExplanation {
  std::string term, text;
};

// Explains the columns that have a `meaning`.
std::vector<ReportLabelAndExplanation> meanings(const std::vector<TableColumn>& columns);

// How the sweep measured: "Trials", "Step time", "Peak", ...
std::vector<ReportLabelAndExplanation> method(const Report& report);

// The known ones of "Versions", "Machine" and "Date". The command is not among them: formats print it on its own line
// to copy.
std::vector<ReportLabelAndExplanation> circumstances(const trace::RunProvenance& origin);

// Step time and peak of `row`, compared with the reference: "320.0 ms a step (1.28 × none), 12 GiB at the peak (24 GiB
// less than none)".
std::string headline(const Report& report, const result::TrialResultRow& row);

// Why the maximum of the trace's memory curve differs from the measured peak; "" if they agree within 1 %.
std::string peak_note(int64_t curve_bytes, int64_t measured_bytes);

}  // namespace memtune::report
