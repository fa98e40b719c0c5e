// How the memtunes of one launch find each other: rank 0 listens where the launcher's environment says, or leaves word
// of where in the store of torchrun's agent; the others come to it and say who they are.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/launch/launch.h"
#include "core/sweep/followers.h"

namespace memtune::sweep {

struct MeetingSettings {
  std::string words;  // of the command, which all of them have to share
  std::chrono::milliseconds patience{120'000};
};

// As rank 0. Error that names those who did not come; UsageError for one that was started otherwise.
std::unique_ptr<Followers> meet_followers(const launch::Launch& launch, const MeetingSettings& settings);

// As another rank. Error when rank 0 is not there; UsageError with what it refuses this rank for.
std::unique_ptr<launch::Connection> meet_leader(const launch::Launch& launch, const MeetingSettings& settings);

}  // namespace memtune::sweep
