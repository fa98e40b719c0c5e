// Checks that a command's records can be true, because its script can write anything into them.
#pragma once

#include <span>
#include <string>

#include "core/measure/attach/command.h"
#include "core/measure/attach/records.h"
#include "core/measure/attach/trial_outcome.h"

namespace memtune::attach {

// The first record that cannot be true: invalid, more time than the command ran, or more memory than there is. "":
// none.
std::string why_implausible(std::span<const TrainingProcessRecords> processes, const CommandSettings& settings,
                            const CommandExit& ending);

}  // namespace memtune::attach
