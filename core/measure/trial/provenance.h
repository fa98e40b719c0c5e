// The origin of a trial's trace, for its header: command, model, versions and machine.
#pragma once

#include <string>

#include "core/plan/request/trial_request.h"
#include "core/record/trace/trace_event.h"

namespace memtune::trial {

// Unknown fields stay empty.
trace::RunProvenance find_provenance(const plan::ModelAndInputSource& source, const std::string& command);

}  // namespace memtune::trial
