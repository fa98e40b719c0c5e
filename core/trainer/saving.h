// Which way of saving, and how often, goes into a trainer's keys: of those that the trainer has, the best by what the
// sweep measured and the rate of failures that it was told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/report/report.h"
#include "core/trainer/config.h"

namespace memtune::trainer {

struct ChosenSaving {
  std::optional<Saving> saving;    // nothing: there is no way to say it
  std::string text;                // of what was chosen, with its cost
  std::vector<std::string> notes;  // why it is only near, or nothing
};

// Steps are those of `row`, whose keys are written. Nothing at all where no saves were measured.
std::optional<ChosenSaving> choose_saving(const Trainer& trainer, const result::Row& row, const report::Report& report);

}  // namespace memtune::trainer
