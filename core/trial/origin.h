// The origin of a trial's trace, for its header: command, model, versions and machine.
#pragma once

#include "core/config/trial_request.h"
#include "core/trace/event.h"

namespace memtune::trial {

// Unknown fields stay empty.
trace::Origin find_origin(const config::TrialRequest& request);

}  // namespace memtune::trial
