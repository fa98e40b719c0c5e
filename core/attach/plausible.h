// Whether a command's records can be true: its script can write what it likes into them.
#pragma once

#include <span>
#include <string>

#include "core/attach/command.h"
#include "core/attach/outcome.h"
#include "core/attach/records.h"

namespace memtune::attach {

// The first record that cannot be: of no form, of more time than the command ran, of more memory than there is.
// "": none.
std::string why_implausible(std::span<const TrainingRecords> processes, const CommandSettings& settings,
                            const Ending& ending);

}  // namespace memtune::attach
