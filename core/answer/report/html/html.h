// The report as one self-contained HTML file: no other files, no network. It is readable without script; the script
// only sorts the table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/record/trace/trace_event.h"

namespace memtune::report {

// A trial whose memory is shown over time. The caller owns row and trace; they outlive the call.
struct TrialWithTraceForMemoryChart {
  const result::TrialResultRow* row = nullptr;
  const trace::Trace* trace = nullptr;                      // nullptr: the page has no memory chart of the trial
  std::vector<result::MemoryOfCallPath> memory_paths = {};  // of a command's step; empty: not known
};

// Recommendation, table, charts, memory of `traced`, method and notes.
std::string html(const Report& report, std::span<const TrialWithTraceForMemoryChart> traced);

}  // namespace memtune::report
