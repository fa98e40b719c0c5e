// Findings about a trial, from its trace and its figures: late copies, stalls, an idle device, the owner of the peak.
// Each says what to change, and refers to the place in the trace that shows it. The rules are in
// finding_rules.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/plan/strategy/plan.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/measurement/trial_result_row.h"
#include "core/record/trace/trace_event.h"

namespace memtune::findings {

enum class Severity {
  note,     // good to know
  advice,   // a change would gain something
  problem,  // costs 5 % or more of the step, or the figures cannot be trusted
};
std::string to_string(Severity severity);

// Where to look: an interval of the trace and events in it.
struct FindingTraceEvidence {
  int64_t start_ns = 0, end_ns = 0;  // both 0: nothing in the trace shows it
  std::vector<uint32_t> events;      // indices into Trace::events, the worst first; few
  trace::ValueId value;              // the value concerned
  std::string strategy;              // the trial
};

struct Finding {
  Severity severity = Severity::note;
  std::string rule;        // "copies-in-late": for scripts, never changes
  std::string what;        // "copies in keep compute waiting for 41 ms a step"
  std::string advice;      // "prefetch=1GiB -> prefetch=2GiB"; may be empty
  double ms_per_step = 0;  // its cost; 0: none in time
  int64_t bytes = 0;       // bytes concerned, or to be gained; 0: none in memory
  double weight = 0;       // share of the step's time or of the peak; orders findings of one severity
  FindingTraceEvidence evidence;
  std::string alternative_strategy = {};  // the whole strategy with the advised change; empty: no strategy makes it
  bool of_figures = false;                // it is about how reliable the figures are, not about the step
};

// "<advice> (<instead>)".
std::string advice_text(const Finding& finding);

// "<what>: <advice> (<instead>)".
std::string sentence(const Finding& finding);

// Findings of a trial, the heaviest first, and those about the figures themselves last. None for a trial that changed
// nothing: it is the baseline. `plan` may be null: then the advice does not name the present setting.
std::vector<Finding> find(const trace::Trace& trace, const result::TrialMeasurement& measurement,
                          const plan::Plan* plan);

// If the strategy that a finding advises was already tried in this sweep, at the axes of `of`, and failed, reports that
// instead.
void mark_failed_alternatives(std::span<const result::TrialResultRow> rows, const result::TrialResultRow& of,
                              std::vector<Finding>& findings);

// Findings about the variants of a training command, without their traces: whose copies make the device wait, which
// other variant is faster within the same memory, and which variants change nothing. The heaviest first.
std::vector<Finding> variant_findings(std::span<const result::TrialResultRow> rows);

}  // namespace memtune::findings
