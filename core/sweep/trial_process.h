// One run of memtune-trial: a process of its own, because a device context cannot be forked, a peak cannot be trusted
// after another's fragmentation, and whatever kills a trial must not take the sweep along.
//
//   spawn -> frames on descriptor 3 -> one TrialAnswer; nothing that the trial does throws here.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/file_system.h"
#include "core/config/machine_profile.h"
#include "core/config/program_facts.h"
#include "core/process/end.h"
#include "core/result/measurement.h"
#include "core/result/save_measurement.h"
#include "core/result/training.h"
#include "core/trace/origin.h"

namespace memtune::sweep {

// What the trial is doing: "measure" step 2 of 5. steps is 0 where the phase has none.
struct Phase {
  std::string name;
  int step = 0, steps = 0;
  std::string note = {};  // for people; "": none
};

struct ModelFacts {
  config::ProgramFacts program;
  std::vector<std::string> inputs;  // as specs, guessed shapes filled in
  std::string loss;
  trace::Origin origin;  // versions and machine of whoever looked
};

struct DoctorCheck {
  std::string name, status, detail, fix;  // status: ok | warn | fail
};

// The person's mistake, in the trial's words.
struct UsageProblem {
  std::string message;
};

// One of several ranks could not go on without another, and says in what.
struct RankProblem {
  bool timed_out = false;  // it waited; else the other has ended
  std::string message;
};

// Of an agent's store: what rank 0 left there.
struct Announcement {
  std::string text;
};

using process::Failure;  // the process ended without an answer

class Followers;

using TrialAnswer =
    std::variant<ModelFacts, result::Measurement, result::TrainingResult, result::SaveMeasurement,
                 std::vector<DoctorCheck>, config::MachineProfile, UsageProblem, RankProblem, Announcement, Failure>;

struct TrialCommand {
  std::vector<std::string> arguments;                         // {"run", "request.json"}
  std::filesystem::path log;                                  // of stdout and stderr; replaced. "": none
  std::chrono::milliseconds limit{std::chrono::minutes(10)};  // then SIGTERM, `grace`, SIGKILL to the whole group
  std::function<void(const Phase&)> progress;                 // may be empty
  FileSystem* files = nullptr;                                // that the log is written through; nullptr: the real one
  std::chrono::milliseconds grace{2000};                      // from SIGTERM to SIGKILL
  int threads = 0;                                            // of OpenMP, where nobody said; 0: its own choice
  int rendezvous = -1;             // a socket that listens, for config::kRendezvousDescriptor; -1: none
  Followers* followers = nullptr;  // the other ranks, where a launcher started them; nullptr: they are started here
};

// $MEMTUNE_TRIAL, else beside this program, else in libexec/memtune of the prefix it is installed in.
// UsageError when there is none.
std::filesystem::path find_trial_program();

// Waits for the trial to end. Throws IoError when it cannot be started at all.
TrialAnswer run_trial_process(const TrialCommand& command);

}  // namespace memtune::sweep
