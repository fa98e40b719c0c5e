// What a reader who never saw memtune has to be told: what the figures are, how they were taken, and how the answer
// came to be. Every form says it in these words.
#pragma once

#include <string>
#include <vector>

#include "core/report/report.h"
#include "core/report/text/columns.h"
#include "core/trace/event.h"

namespace memtune::report {

struct Term {
  std::string term, text;
};

// Of the columns whose heads do not say it by themselves.
std::vector<Term> meanings(const std::vector<Column>& columns);

// "Trials", "Step time", "Peak", ...: how it was measured.
std::vector<Term> method(const Report& report);

// "Date", "Versions", "Machine": what is known of it. The command stands alone, as it is to be copied.
std::vector<Term> circumstances(const trace::Origin& origin);

// "320.0 ms a step (1.28 × none), 12 GiB at the peak (24 GiB less than none)".
std::string headline(const Report& report, const result::Row& row);

// Why the highest point of the trace's curve is not the peak that was measured; "" where they agree within 1 %.
std::string peak_note(int64_t curve_bytes, int64_t measured_bytes);

}  // namespace memtune::report
