// What a report says of processes that trained together: a line each, of the recommended trial or of the only one.
#pragma once

#include <vector>

#include "core/report/report.h"
#include "core/report/text/columns.h"

namespace memtune::report {

// The trial that is told of; null: it was one process, or there is no one trial.
const result::Row* rank_row(const Report& report);
// A cell a rank; empty: the trial was one process, or there is no one trial to tell of.
std::vector<Column> rank_columns(const Report& report);

}  // namespace memtune::report
