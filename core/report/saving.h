// What a report says of saving the training's state under the recommended plan: a small table, and how often it is best
// done. Every form says it in these words.
#pragma once

#include <string>
#include <vector>

#include "core/report/report.h"
#include "core/report/text/columns.h"
#include "core/result/save_interval.h"

namespace memtune::report {

// The row whose ways of saving are told: the recommended one, where they were measured; else nullptr.
const result::Row* saving_row(const Report& report);

// A cell a way that worked; empty: none did.
std::vector<Column> saving_columns(const result::Row& row, double mtbf_s);

// "async: disk_full: no space left", a line each.
std::vector<std::string> saving_failures(const result::Row& row);

// As saving_text, of the best way; without a rate, for a few of them.
// "": no way worked.
std::string saving_advice(const result::Row& row, double mtbf_s);

// "with a failure every 12 h: async every 120 steps (2.3 min), 1.2 % of the time".
std::string saving_text(const result::SaveAdvice& advice);

// "45 s", "2.3 min", "12 h", "7 d".
std::string duration_text(double seconds);

}  // namespace memtune::report
