// Runs memtune-trial once, in a process of its own: a CUDA context cannot be forked, earlier trials fragment memory and
// change the peak, and a crash of the trial must not end the sweep.
//
//   spawn -> frames on descriptor 3 -> one TrialAnswer; failures of the trial are returned, not thrown.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/answer/run/model_inspection_result.h"
#include "core/base/file_system.h"
#include "core/base/limits.h"
#include "core/measure/process/end.h"
#include "core/plan/facts/machine_profile.h"
#include "core/plan/facts/program_facts.h"
#include "core/record/measurement/state_save_mode_measurement.h"
#include "core/record/measurement/training.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/trace/run_provenance.h"

namespace memtune::sweep {

// Progress of the trial: "measure", step 2 of 5. `steps` is 0 if the phase has none.
struct TrialPhaseProgress {
  std::string name;
  int step = 0, steps = 0;
  std::string note = {};  // for the user; "": none
};

struct DoctorCheckResult {
  std::string name, status, detail, fix;  // status: ok | warn | fail
};

// A mistake of the user, in the trial's words.
struct ReceivedUsageError {
  std::string message;
};

// A rank could not continue without another rank.
struct FailedWaitForOtherRank {
  bool timed_out = false;  // it waited too long; else the other has ended
  std::string message;     // what it waited for
};

// The text that rank 0 published in the store of torchrun's agent.
struct RankZeroTorchrunStoreText {
  std::string text;
};

using process::ProcessFailure;  // the process ended without an answer

using TrialAnswer = std::variant<ModelInspectionResult, result::TrialMeasurement, result::ResumableTrainingResult,
                                 result::StateSaveModeMeasurement, std::vector<DoctorCheckResult>, plan::MachineProfile,
                                 ReceivedUsageError, FailedWaitForOtherRank, RankZeroTorchrunStoreText, ProcessFailure>;

class PrestartedTrialProcess;

struct TrialProcessSettings {
  std::vector<std::string> arguments;                         // {"run", "request.json"}
  std::filesystem::path log;                                  // for stdout and stderr; replaced. "": none
  std::chrono::milliseconds limit{std::chrono::minutes(10)};  // then SIGTERM, `grace`, SIGKILL to the whole group
  std::function<void(const TrialPhaseProgress&)> progress;    // may be empty
  FileSystem* files = nullptr;                                // for the log; nullptr: the real one
  std::chrono::milliseconds grace{2000};                      // from SIGTERM to SIGKILL
  // Host memory in bytes. A trial that leaves hardly any of it is ended.
  std::function<int64_t()> available_memory = available_memory_bytes;
  int threads = 0;  // of OpenMP, unless OMP_NUM_THREADS is set; 0: its default
  PrestartedTrialProcess* spare =
      nullptr;          // is taken, and started again for the next trial as this one ends; may be null
  int rendezvous = -1;  // a listening socket for plan::kRendezvousDescriptor; -1: none
};

// $MEMTUNE_TRIAL, else next to this program, else in libexec/memtune of the installation prefix. Throws UsageError if
// there is none.
std::filesystem::path find_trial_program();

// Waits for the trial to end. Throws IoError if it cannot be started.
TrialAnswer run_trial_process(const TrialProcessSettings& command);

}  // namespace memtune::sweep
