// Derives the outcome of a command from its records and from how it ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "core/measure/attach/command.h"
#include "core/measure/attach/records.h"

namespace memtune::attach {

// Why this side stopped the command. no_step: for its limit without a step; timeout: at its whole limit;
// shutdown_timeout: it had taken its steps and did not end.
enum class CommandKillReason { none, no_step, timeout, interrupt, shutdown_timeout };

struct CommandExit {
  CommandKillReason stop = CommandKillReason::none;
  std::optional<int> status;  // from waitpid(); none: it was killed in the end
  std::optional<int64_t> memory_kills;
  std::string log_tail;
  std::chrono::milliseconds limit{};  // that was reached
  std::chrono::milliseconds wall{};   // how long it ran; 0: unknown
};

// True if there is a process that trains, and all of them took all their steps.
bool all_done(const RecordFolderReader& records);

// Number of steps that the slowest process has taken.
int64_t steps_taken(const RecordFolderReader& records);

CommandProgress progress_of(const RecordFolderReader& records, const StepCounts& asked);

MeasuredTrainingCommandResult make_result(const CommandSettings& settings, const RecordFolderReader& records,
                                          const CommandExit& ending);

}  // namespace memtune::attach
