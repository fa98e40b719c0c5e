// The report as one self-contained HTML file: no other files, no network. It is readable without script; the script
// only sorts the table.
#pragma once

#include <span>
#include <string>

#include "core/answer/report/report.h"
#include "core/record/trace/trace_event.h"

namespace memtune::report {

// A trial whose memory is shown over time. The caller owns both; they outlive the call.
struct TracedTrial {
  const result::TrialRow* row = nullptr;
  const trace::Trace* trace = nullptr;
};

// Recommendation, table, charts, memory of `traced`, method and notes.
std::string html(const Report& report, std::span<const TracedTrial> traced);

}  // namespace memtune::report
