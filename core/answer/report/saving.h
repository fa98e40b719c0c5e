// Texts about saving the training state under the recommended plan: a table of save modes and the best interval. All
// formats share them.
#pragma once

#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/report/text/columns.h"
#include "core/answer/result/save_interval.h"

namespace memtune::report {

// The row whose save modes are shown: the recommended one, if its saves were measured; otherwise nullptr.
const result::TrialResultRow* saving_row(const Report& report);

// One cell per save mode that worked; empty if none did. `mtbf_s`: mean time between failures; 0: not given.
std::vector<TableColumn> saving_columns(const result::TrialResultRow& row, double mtbf_s);

// One line per failed mode: "async: disk_full: no space left".
std::vector<std::string> saving_failures(const result::TrialResultRow& row);

// saving_text of the best mode, at `mtbf_s` or, if that is 0, at three typical failure rates. "" if no mode worked.
std::string saving_advice(const result::TrialResultRow& row, double mtbf_s);

// "with a failure every 12 h: async every 120 steps (2.3 min), 1.2 % of the time".
std::string saving_text(const result::SaveIntervalAdvice& advice);

// "45 s", "2.3 min", "12 h", "7 d".
std::string duration_text(double seconds);

}  // namespace memtune::report
