// One run of somebody else's training command, measured as it is: N steps, then a clean end. What a sweep of commands
// calls for each of its trials.
//
//   ShimFolder -> Guardian -> RecordFolder -> make_result; nothing that the command does throws here.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/attach/shim_folder.h"
#include "core/base/file_system.h"
#include "core/result/row.h"

namespace memtune::attach {

struct CommandSettings {
  std::string name = "command";      // of the trial: result::Measurement::strategy
  std::vector<std::string> command;  // program and arguments, as a shell would start them
  StepCounts steps;
  std::filesystem::path folder;  // exists; the log and trace.mttrace go there
  std::string log = "log.txt";
  std::filesystem::path plan = {};  // absolute; a plan in Python that the model is trained under; "": none
  int64_t memory_cap_bytes = 0;     // of the device, PyTorch's own limit; 0: none
  int64_t device_bytes = 0;         // that a GPU here has at most; 0: not known
  std::chrono::milliseconds limit{std::chrono::minutes(10)};  // then SIGTERM, `grace`, SIGKILL to all of it
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds farewell{30000};                  // from its last step until it has ended by itself
  std::function<void(int64_t step, int64_t steps)> progress;  // of the slowest process, when it changes; may be empty
  FileSystem* files = nullptr;  // that the folder is written through; nullptr: the real one
};

// Made up like a trial of memtune's own; a row of a report. Failed commands have the figures of the steps they took.
struct CommandResult {
  result::Row row;  // its trace is a file name within the folder
  std::vector<std::string> notes;
  std::string torch;           // version; "": no step was taken
  bool device_traced = false;  // kernels and copies of some rank are in its trace
};

// Waits for the command to end. Throws UsageError when there is no such program, IoError when it cannot be measured at
// all. Signals end it where a process::InterruptScope is alive. This process must have no other threads.
CommandResult measure_command(const CommandSettings& settings);

}  // namespace memtune::attach
