#include "core/sweep/loop/training.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/measure/process/interrupt.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/sweep/proposals/candidate_strategies_and_user_plan_files.h"
#include "core/sweep/ranks/rank_trials.h"

namespace memtune::sweep {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kLimit{24 * 365 * 10};  // of a run: effectively none
constexpr std::chrono::minutes kGrace{30};           // to save after a signal; a second signal ends it at once

plan::ResumableTrainingRequest request_of(const ResumableTrainingSettings& settings, const plan::ProgramFacts& facts) {
  plan::ResumableTrainingRequest request;
  request.trial = settings.sweep.request;
  const auto one = [](const std::vector<int64_t>& axis, int64_t otherwise) {
    return axis.empty() ? otherwise : axis.front();
  };
  request.trial.training.batch = one(settings.sweep.batches, request.trial.training.batch);
  request.trial.training.sequence = one(settings.sweep.sequences, request.trial.training.sequence);
  const CandidateStrategiesAndUserPlanFiles candidates(settings.sweep.strategies, settings.sweep.plans,
                                                       settings.sweep.request.training);
  request.trial.plan = candidates.all().front().make_plan(facts);
  request.save_every = settings.save_every;
  // Otherwise the only save is after a signal, where no training overlaps.
  if (settings.save_every > 0) request.save = settings.save;
  request.keep_last = settings.keep_last;
  request.resume = settings.resume;
  request.from = settings.from;
  return request;
}

}  // namespace

TrialAnswer train(const ResumableTrainingSettings& settings, SweepListener& listener) {
  const process::InterruptScope interrupts;
  EngineSweepSettings look = settings.sweep;
  // So that a run to a later step reuses the inspection.
  look.request.training.steps = plan::TrainingSettings().steps;
  const std::optional<ModelInspectionResult> facts = inspect_model(look, listener);
  if (!facts) return ProcessFailure{result::TrialOutcome::interrupted, "stopped before the first step"};
  plan::ResumableTrainingRequest request = request_of(settings, facts->program);
  for (const auto& notes : {settings.sweep.notes, facts->program.notes})
    for (const std::string& note : notes) listener.noted(note);
  const fs::path folder = fs::absolute(settings.sweep.directory);
  make_folders(folder);
  const RunDirectory directory(folder);
  const FileLock lock(folder / "lock", directory.files());
  request.folder = folder.string();
  write_file(folder / "run.json", nlohmann::json(request).dump(1, '\t') + "\n", directory.files());
  TrialProcessSettings command{{"train", (folder / "run.json").string()},
                               folder / "log.txt",
                               kLimit,
                               [&](const TrialPhaseProgress& phase) { listener.phase(phase); },
                               &directory.files()};
  command.grace = kGrace;
  return run_ranks(request, folder, "run.json", command, directory.files());
}

}  // namespace memtune::sweep
