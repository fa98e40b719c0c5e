// How a trial's trace came to be, for the trace's header: asked for what, of which versions, on what machine.
#pragma once

#include "core/config/trial_request.h"
#include "core/trace/event.h"

namespace memtune::trial {

// What cannot be found out stays empty.
trace::Origin find_origin(const config::TrialRequest& request);

}  // namespace memtune::trial
