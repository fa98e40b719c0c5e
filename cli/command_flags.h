// Shared by the commands that take a training command after "--": the flags that go with it, and its settings.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "core/sweep/commands/command_sweep.h"

namespace memtune::cli {

// The words after "--"; none without a "--".
using CommandWordsBehind = std::optional<std::vector<std::string>>;

// Throws UsageError for a given flag that is not in `flags`. The message is the flag's name and `why`.
void check_flags_of_command(
    const CLI::App& command, const std::vector<std::string>& flags,
    const std::string& why = " is for models that memtune trains itself; a command behind -- has its own");

// Adds --show. Without a command it throws UsageError.
void add_show(CLI::App& app, ModelFlags& flags, const CommandWordsBehind& behind);

// Settings from --warmup, --steps, --timeout, --memory-cap, --show and --out, without variants. Throws UsageError.
sweep::CommandSweepSettings command_settings(const ModelFlags& flags, const std::vector<std::string>& command);

}  // namespace memtune::cli
