// A table of the ranks of one trial: the recommended trial, or the only one.
#pragma once

#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/report/text/columns.h"

namespace memtune::report {

// The trial whose ranks are shown. Null if it ran as one process, or if none is recommended among several.
const result::TrialResultRow* rank_row(const Report& report);
// One cell per rank. Empty if rank_row is null.
std::vector<TableColumn> rank_columns(const Report& report);

}  // namespace memtune::report
