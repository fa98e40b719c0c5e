#include "core/answer/trainer/recommended_state_save_schedule.h"

#include <algorithm>

#include "core/answer/report/saving.h"
#include "core/answer/result/save_interval.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"

namespace memtune::trainer {
namespace {

using result::SaveIntervalAdvice;
using result::StateSaveModeMeasurement;

size_t place_of(const std::string& mode) {
  return static_cast<size_t>(std::ranges::find(kSaveModes, mode) - kSaveModes.begin());
}

std::vector<StateSaveModeMeasurement> of_trainer(const TrainerBatchAndSaveKeys& trainer,
                                                 std::vector<StateSaveModeMeasurement> saves) {
  const size_t known = std::min(trainer.save_modes, kSaveModes.size());
  std::erase_if(saves, [&](const StateSaveModeMeasurement& save) { return place_of(save.mode) >= known; });
  return saves;
}

// "sync or async".
std::string modes_of(const TrainerBatchAndSaveKeys& trainer) {
  const size_t count = std::min(trainer.save_modes, kSaveModes.size());
  return join({kSaveModes.begin(), kSaveModes.begin() + static_cast<std::ptrdiff_t>(count)}, " or ");
}

}  // namespace

std::optional<TrainingStateSaveChoice> choose_saving(const TrainerBatchAndSaveKeys& trainer,
                                                     const result::TrialResultRow& row, const report::Report& report) {
  const result::TrialResultRow* measured = report::saving_row(report);
  if (!measured) return {};
  if (trainer.save == nullptr) return {};
  const std::string name(trainer.name);
  if (report.mtbf_s <= 0)
    return TrainingStateSaveChoice{
        {}, "", {"saving was measured; the same sweep with --mtbf TIME advises how often and writes its keys"}};
  const double step_ms = row.measurement.step_ms.median;
  const std::optional<SaveIntervalAdvice> best = result::advise(measured->saves, step_ms, report.mtbf_s);
  const std::optional<SaveIntervalAdvice> own =
      result::advise(of_trainer(trainer, measured->saves), step_ms, report.mtbf_s);
  if (!own)
    return TrainingStateSaveChoice{
        {}, "", {"no keys for saving: " + name + " has " + modes_of(trainer) + ", which was not measured or failed"}};
  TrainingStateSaveChoice chosen{
      RecommendedStateSaveSchedule{place_of(own->mode), own->every_steps, report.keep_last},
      report::saving_text(*own) + "; measured with memtune's own saves, " + name + "'s may cost more or less",
      {}};
  chosen.notes.push_back(row.passes > 1
                             ? "a step is one update, of " + std::to_string(row.passes) + " micro-batches"
                             : "a step is memtune's, one batch and one update: if " + name +
                                   " accumulates gradients over several micro-batches, divide by their number");
  if (own->mode != best->mode)
    chosen.notes.push_back(name + " has no " + best->mode + ", which would be best (" + report::saving_text(*best) +
                           "); writing " + own->mode + ", the nearest that it has");
  return chosen;
}

}  // namespace memtune::trainer
