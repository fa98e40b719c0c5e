// The answer as one HTML file for the colleague who has no memtune: no other file, no network, readable without script
// (a few lines of it let the table be sorted).
#pragma once

#include <span>
#include <string>

#include "core/report/report.h"
#include "core/trace/event.h"

namespace memtune::report {

// A trial whose memory is shown over time. Both are the caller's.
struct TracedTrial {
  const result::Row* row = nullptr;
  const trace::Trace* trace = nullptr;
};

// The recommendation in words, the table, charts, the memory of `traced`, how it was measured, notes.
std::string html(const Report& report, std::span<const TracedTrial> traced);

}  // namespace memtune::report
