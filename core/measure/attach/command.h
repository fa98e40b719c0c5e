// Runs a training command unchanged, measures some of its steps and ends it cleanly. A sweep of commands calls it for
// each trial.
//
//   ShimFolder -> Guardian -> RecordFolderReader -> make_result; failures of the command are returned, not thrown.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/measure/attach/shim_folder.h"
#include "core/record/measurement/trial_result_row.h"

namespace memtune::attach {

// Of the slowest process that trains.
struct CommandProgress {
  int64_t step = 0;               // number of steps that it has taken
  int64_t steps = 0;              // up to the last measured one; 0: the steps after that are traced
  std::optional<double> step_ms;  // of the latest; none for the first, whose begin is unknown
  int64_t peak_bytes = 0;         // allocated so far, the highest of all processes; 0: unknown
};

struct CommandSettings {
  std::string name = "command";      // becomes result::Measurement::strategy
  std::vector<std::string> command;  // program and arguments, as a shell would start them
  StepCounts steps;
  std::filesystem::path folder;  // must exist; gets the log and trace.mttrace
  std::string log = "log.txt";
  std::filesystem::path plan = {};  // absolute path of a Python plan for the model; "": none
  int64_t memory_cap_bytes = 0;     // of each process on its device; 0: none
  std::string allocator = {};       // settings of PyTorch's allocator beside those of the environment; "": none
  int64_t device_bytes = 0;         // of the largest GPU here; 0: unknown
  // Time without a step: from its start to the first one, and from each to the next. At a limit all its processes get
  // SIGTERM, after `grace` SIGKILL.
  std::chrono::milliseconds limit{std::chrono::minutes(10)};
  std::optional<std::chrono::milliseconds> whole_limit = {};  // from its start to its end
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds shutdown_timeout{30000};     // from its last step to its end, before it is stopped
  std::function<void(const CommandProgress&)> progress;  // after each step; may be empty
  std::function<void(std::string_view)> output;          // gets what the command prints, as it comes; may be empty
  // Folder with the records of a process that measured itself, such as a notebook: no command is started. "": none
  std::filesystem::path records = {};
  FileSystem* files = nullptr;  // for the folder; nullptr: the real one
};

// Has the form of a trial of memtune's engine: a row of a report. A failed command has the figures of the steps that it
// took.
struct MeasuredTrainingCommandResult {
  result::TrialResultRow row;  // its trace is a file name within the folder
  std::vector<std::string> notes;
  std::string torch;           // version; "": no step was taken
  bool device_traced = false;  // the trace has kernels and copies of some rank
};

// Waits for the command to end. Throws UsageError if there is no such program, IoError if it cannot be measured. A
// signal ends the command if a process::InterruptScope exists. This process must have no other threads.
MeasuredTrainingCommandResult measure_command(const CommandSettings& settings);

}  // namespace memtune::attach
