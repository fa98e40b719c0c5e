// Chooses save mode and interval for a trainer's keys: the best mode that the trainer has, by measured saves and
// failure rate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/trainer/trainers.h"

namespace memtune::trainer {

struct TrainingStateSaveChoice {
  std::optional<RecommendedStateSaveSchedule> saving;  // none: no keys express it
  std::string text;                                    // describes the choice and its cost
  std::vector<std::string> notes;                      // why another mode would be better, or why there are no keys
};

// Step times come from `row`, whose keys are written. None if no saves were measured.
std::optional<TrainingStateSaveChoice> choose_saving(const TrainerBatchAndSaveKeys& trainer,
                                                     const result::TrialResultRow& row, const report::Report& report);

}  // namespace memtune::trainer
