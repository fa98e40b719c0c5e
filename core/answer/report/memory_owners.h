// Who held the memory of a step of a training command, for text and HTML.
#pragma once

#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/report/text/columns.h"
#include "core/record/measurement/step_memory_breakdown.h"

namespace memtune::report {

// The recommended row, or the only one, if it has the memory of a step; else nullptr.
const result::TrialResultRow* memory_row(const Report& report);

// A row for each kind of memory and one for their sum.
std::vector<TableColumn> owner_columns(const result::StepMemoryBreakdown& memory);

// "Memory of step 9 by owner, peak in backward".
std::string owner_title(const result::StepMemoryBreakdown& memory);

// The modules and lines of the source with most of the peak, and what is not known. One paragraph each.
std::vector<std::string> owner_texts(const result::StepMemoryBreakdown& memory);

}  // namespace memtune::report
