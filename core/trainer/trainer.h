// A trial as the keys of the trainer in use. Only keys that the named version really acts on; where it has no
// counterpart the nearest is written, and a comment says what was rounded.
#pragma once

#include <span>
#include <string>

#include "core/report/report.h"

namespace memtune::trainer {

std::span<const std::string> trainers();  // "torchtune", "axolotl"

// YAML to be merged into a config: comments on what was measured, then the keys. `row` is one of the report's, of any
// strategy that core/plan knows. UsageError for an unknown trainer, for what has no counterpart at all (a plan that a
// person wrote), and for a trial that failed.
std::string export_config(const std::string& trainer, const result::Row& row, const report::Report& report);

}  // namespace memtune::trainer
