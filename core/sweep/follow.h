// Another rank than the first where a launcher started them all: what it does until rank 0, whose end is
// core/sweep/followers.h, says that all is done.
#pragma once

#include <chrono>

#include "core/config/trial_request.h"
#include "core/launch/connection.h"
#include "core/launch/launch.h"

namespace memtune::sweep {

// Runs this rank of the trials that rank 0 asks for. Of what it is asked the model, its libraries and the folders are
// `own`, as its own command says: whoever speaks for rank 0 can have no other code run and no other file written.
// Answers the exit code of rank 0; 130 after a signal. Error once rank 0 is gone, or silent for all of `patience`.
int follow(const launch::Launch& launch, launch::Connection& leader, const config::TrialRequest& own,
           std::chrono::milliseconds patience);

}  // namespace memtune::sweep
