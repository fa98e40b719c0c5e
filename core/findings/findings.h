// What a trial's trace and figures say that a person can act on: late copies, stalls, an idle device, who holds the
// peak. Each finding carries the place in the trace that shows it. The rules are in finding_rules.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/result/measurement.h"
#include "core/result/row.h"
#include "core/trace/event.h"

namespace memtune::findings {

enum class Severity {
  note,     // good to know
  advice,   // a change would gain something
  problem,  // costs 5 % or more of the step, or the figures cannot be trusted
};
std::string to_string(Severity severity);

// Where to look: a stretch of the trace and what in it.
struct Evidence {
  int64_t start_ns = 0, end_ns = 0;  // both 0: nothing in the trace shows it
  std::vector<uint32_t> events;      // indices into Trace::events, the worst first; few
  trace::ValueId value;              // that it is about
  std::string strategy;              // the trial
};

struct Finding {
  Severity severity = Severity::note;
  std::string rule;        // "copies-in-late": for scripts, never changes
  std::string what;        // "copies in keep compute waiting for 41 ms a step"
  std::string advice;      // "prefetch=1GiB -> prefetch=2GiB"; may be empty
  double ms_per_step = 0;  // what it costs; 0: no time
  int64_t bytes = 0;       // what it is about, or what would be gained; 0: no memory
  double weight = 0;       // share of the step's time or of the peak: what findings of one severity are sorted by
  Evidence evidence;
  std::string instead = {};  // the whole strategy with what is advised; empty where no strategy makes the change
  bool of_figures = false;   // it is about how far the figures can be trusted, not about the step
};

// "<advice> (<instead>)".
std::string advice_text(const Finding& finding);

// "<what>: <advice> (<instead>)".
std::string sentence(const Finding& finding);

// Heaviest first, and last what is about the figures themselves. Of a trial that did nothing there is nothing to say:
// it is the baseline. `plan` may be null: then advice names what to turn without its present setting.
std::vector<Finding> find(const trace::Trace& trace, const result::Measurement& measurement, const config::Plan* plan);

// Where the strategy that a finding advises was tried beside `of` and did not work, that is told instead.
void tell_what_failed(std::span<const result::Row> rows, const result::Row& of, std::vector<Finding>& findings);

// Of the variants of a training command, whatever their traces: whose copies the device waits for, which other is
// faster within the same memory, and which change nothing. Heaviest first.
std::vector<Finding> of_variants(std::span<const result::Row> rows);

}  // namespace memtune::findings
