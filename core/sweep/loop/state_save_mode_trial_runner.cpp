#include "core/sweep/loop/state_save_mode_trial_runner.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/vocabulary.h"
#include "core/engine/state/saved_states_folder.h"
#include "core/measure/process/interrupt.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/sweep/ranks/rank_trials.h"

namespace memtune::sweep {
namespace {

using result::StateSaveModeMeasurement;
using result::TrialOutcome;

constexpr const char* kFolder = "saving";

std::string key_of(const SweepTrialEntry& spec, const std::string& mode) { return spec.key + "-save-" + mode; }

StateSaveModeMeasurement* find(SweepTrialEntry& spec, const std::string& mode) {
  const auto found = std::ranges::find(spec.saves, mode, &StateSaveModeMeasurement::mode);
  return found == spec.saves.end() ? nullptr : &*found;
}

// Keeps the order of kSaveModes.
void put(StateSaveModeMeasurement measurement, SweepTrialEntry& spec) {
  if (StateSaveModeMeasurement* before = find(spec, measurement.mode)) {
    *before = std::move(measurement);
  } else {
    spec.saves.push_back(std::move(measurement));
  }
  const auto place = [](const StateSaveModeMeasurement& save) {
    return std::ranges::find(kSaveModes, save.mode) - kSaveModes.begin();
  };
  std::ranges::stable_sort(spec.saves, {}, place);
}

StateSaveModeMeasurement failed(const std::string& mode, TrialOutcome outcome, const std::string& reason) {
  StateSaveModeMeasurement measurement;
  measurement.mode = mode;
  measurement.outcome = outcome;
  measurement.reason = reason;
  return measurement;
}

StateSaveModeMeasurement as_measurement(const TrialAnswer& answer, const std::string& mode) {
  if (const auto* measured = std::get_if<StateSaveModeMeasurement>(&answer)) return *measured;
  if (const auto* problem = std::get_if<ReceivedUsageError>(&answer))
    return failed(mode, TrialOutcome::error, problem->message);
  if (const auto* failure = std::get_if<ProcessFailure>(&answer))
    return failed(mode, failure->outcome, failure->reason);
  return failed(mode, TrialOutcome::error, "memtune-trial gave another answer than what saves cost");
}

}  // namespace

bool StateSaveModeTrialRunner::run(SweepTrialEntry& spec, const plan::TrialRequest& request) {
  std::vector<std::string> missing;
  std::ranges::copy_if(settings_.save_modes, std::back_inserter(missing),
                       [&](const std::string& mode) { return !can_reuse(spec, mode); });
  for (size_t i = 0; i < missing.size(); ++i) {
    if (process::interrupted()) return false;
    listener_.save_started(missing[i], missing.size() - i);
    if (!run_mode(spec, request, missing[i])) return false;
  }
  return true;
}

bool StateSaveModeTrialRunner::can_reuse(const SweepTrialEntry& spec, const std::string& mode) {
  const JournaledTrialState* known = journal_.find(key_of(spec, mode));
  const auto found = std::ranges::find(spec.saves, mode, &StateSaveModeMeasurement::mode);
  if (!known || known->outcome.empty() || found == spec.saves.end()) return false;
  return may_reuse(found->outcome, settings_.reuse);
}

bool StateSaveModeTrialRunner::run_mode(SweepTrialEntry& spec, const plan::TrialRequest& request,
                                        const std::string& mode) {
  journal_.start(key_of(spec, mode), spec.folder, spec.strategy);
  const StateSaveModeMeasurement measurement = measure(spec, request, mode);
  open_.keep();
  listener_.save_ended(measurement);
  if (measurement.outcome == TrialOutcome::interrupted) return false;
  put(measurement, spec);
  directory_.write_record(record_);
  journal_.end(key_of(spec, mode), to_string(measurement.outcome));
  return true;
}

StateSaveModeMeasurement StateSaveModeTrialRunner::measure(const SweepTrialEntry& spec, const plan::TrialRequest& trial,
                                                           const std::string& mode) {
  const std::filesystem::path folder = std::filesystem::absolute(directory_ / spec.folder);
  FileSystem& files = directory_.files();
  plan::ResumableTrainingRequest request;
  request.trial = trial;
  request.trial.envelope.reference = request.trial.envelope.trace = "";
  request.folder = std::filesystem::absolute(directory_ / kFolder).string();
  request.save = mode;
  request.keep_last = 1;  // next to the one being written
  try {
    remove_states();  // of a killed memtune
    make_folders(request.folder, files);
  } catch (const IoError& error) {
    return failed(mode, TrialOutcome::disk_error, error.what());
  }
  write_file(folder / "save.json", nlohmann::json(request).dump(1, '\t') + "\n", files);
  const TrialProcessSettings command{{"save", (folder / "save.json").string()},
                                     folder / "save.txt",
                                     settings_.limit,
                                     [this](const TrialPhaseProgress& phase) { listener_.phase(phase); },
                                     &files};
  const TrialAnswer answer = run_ranks(request, folder, "save.json", command, files);
  try {
    remove_states();
  } catch (const IoError& error) {
    listener_.noted(std::string("the states saved for this measurement were not removed: ") + error.what());
  }
  return as_measurement(answer, mode);
}

// The run directory may contain a symbolic link of that name; states behind it must not be removed.
void StateSaveModeTrialRunner::remove_states() {
  const FileDescriptor there(directory_.files().open(directory_ / kFolder, O_RDONLY | O_DIRECTORY, 0));
  if (there.get() == -ENOENT) return;
  if (there.get() < 0) throw_io_error("open", directory_ / kFolder, -there.get());
  state::SavedStatesFolder states(directory_ / kFolder);
  for (const int64_t step : states.steps()) states.remove(step);
  states.remove_remains();
  remove_file(states.root() / state::kLatest, directory_.files());
  directory_.files().remove_folder(states.root());
  directory_.files().remove_folder(directory_ / kFolder);
}

}  // namespace memtune::sweep
