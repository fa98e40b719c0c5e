// A trial as the keys of the trainer in use. Only keys that the named version really acts on; where it has no
// counterpart the best measured one that fits is written, and comments say so.
#pragma once

#include <span>
#include <string>

#include "core/report/report.h"

namespace memtune::trainer {

std::span<const std::string> trainers();  // "torchtune", "axolotl", ...
// Its configuration is YAML, which merge() takes.
bool is_yaml(const std::string& trainer);

// YAML to be merged into a config: comments on what was measured, then the keys. `row` is one of the report's. Keys are
// written for a strategy that was measured, that they amount to exactly, and that keeps the report's budget: the row's
// own, else the best of the others at its batch and sequence (a plan that a person wrote has no keys of its own). A
// trial that did nothing is written as what it is, the reference. UsageError for an unknown trainer, a trial that
// failed and where nothing can be written so, with the way out. Where saves were measured and a rate of failures is
// known, the keys of saving follow; of some trainers they are all that is written.
std::string export_config(const std::string& trainer, const result::Row& row, const report::Report& report);

}  // namespace memtune::trainer
