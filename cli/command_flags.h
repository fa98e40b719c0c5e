// What the commands that take a training command behind "--" share: which of their flags go with it, and what those
// say.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "core/sweep/command_sweep.h"

namespace memtune::cli {

// The words behind "--"; nothing: there was no "--".
using CommandWordsBehind = std::optional<std::vector<std::string>>;

// UsageError for a flag that was given and is not of `flags`: `why` it is not for commands, behind its name.
void check_flags_of_command(
    const CLI::App& command, const std::vector<std::string>& flags,
    const std::string& why = " is for models of memtune's own; a command behind -- brings what it trains");

// --warmup, --steps, --timeout, --memory-cap and --out; no variants. Throws UsageError.
sweep::CommandSweepSettings command_settings(const ModelFlags& flags, const std::vector<std::string>& command);

}  // namespace memtune::cli
