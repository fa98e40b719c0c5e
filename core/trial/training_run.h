// Real steps under a plan, one after another, with saves between them: what memtune run asks for.
#pragma once

#include "core/config/run_request.h"
#include "core/result/training.h"
#include "core/trial/frames.h"
#include "core/trial/runner.h"

namespace memtune::trial {

// A save that fails is told and the run goes on. SIGTERM: saves, and ends before the last step. UsageError for the
// person's mistakes, a state that cannot be loaded among them; what ops and engines throw.
result::TrainingResult train(const config::RunRequest& request, Runner& runner, Frames& frames);

}  // namespace memtune::trial
