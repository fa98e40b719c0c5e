// The folder of a sweep, with all files that a report needs:
//
//   sweep.json                     format, settings, facts of the model and the list of trials
//   journal.jsonl  lock            started and finished trials; the lock of the process that works in it
//   reference-<setting>.bin        loss and gradients that trials of one setting are compared with, and their noise
//   inspect/<setting>/             request, log and facts of an inspection of the model
//   saving/                        saved states, only while saves are measured
//   trials/<n>-<name>/             request.json  plan.json  measurement.json  trace.mttrace  log.txt
//                                  round.json  round.txt: request and log of the latest later round
//                                  for variants of a command no requests and no plan, but their config file
//                                  save.json  save.txt: request and log of the latest measured save
//
// The folder may come from another person and contain links, pipes or foreign files. memtune follows no link, waits for
// no pipe, and removes only files that it wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/result/recommend.h"
#include "core/answer/run/command_variants.h"
#include "core/answer/run/model_inspection_result.h"
#include "core/base/confined_file_system.h"
#include "core/base/error.h"
#include "core/plan/request/trial_request.h"
#include "core/record/measurement/trial_prediction.h"

namespace memtune::sweep {

// One trial of a sweep. SweepJsonSettingsFactsAndTrials lists them in the order of running.
struct SweepTrialEntry {
  std::string strategy;
  std::optional<int64_t> batch, sequence;  // set only for an axis
  std::string key;
  std::string folder;                                        // relative to the run directory
  std::vector<result::StateSaveModeMeasurement> saves = {};  // under its plan, or by the command itself, if measured
  std::vector<std::string> notes = {};                       // for the user
  std::optional<result::TrialPrediction> predicted = {};     // made before it ran
};

// Content of sweep.json.
struct SweepJsonSettingsFactsAndTrials {
  std::string model;  // for messages: "model.pt", "small (profile)"
  std::string machine;
  std::optional<CommandSweepSettingsAndVariants>
      command;                  // set for sweeps of a command, which have no request and no facts
  plan::TrialRequest request;   // the part that all trials share
  ModelInspectionResult facts;  // at the first setting
  trace::RunProvenance origin;  // of the run that measured last; empty in older files
  std::vector<SweepTrialEntry> trials;
  int64_t budget_bytes = 0;  // 0: none
  result::RecommendationGoal goal = result::RecommendationGoal::throughput;
  int64_t global_batch = 0;              // samples per step, reached by gradient accumulation; 0: a step is one batch
  double mtbf_s = 0;                     // mean time between failures of the job; 0: not given
  int64_t keep_last = 0;                 // saved states that the training keeps; 0: all
  std::string own_config, own_strategy;  // as in Report
  std::vector<result::PredictedFrontier> frontiers = {};  // one for each setting with plans
};

// The folder was written by a later memtune and must not be overwritten.
class NewerFormatError : public UsageError {
  using UsageError::UsageError;
};

class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root, FileSystem& below = system_files())
      : root_(std::move(root)), files_(std::make_shared<ConfinedFileSystem>(root_, below)) {}

  std::filesystem::path operator/(const std::filesystem::path& relative) const { return root_ / relative; }
  const std::filesystem::path& root() const { return root_; }

  // For files beneath root(), by their whole path.
  ConfinedFileSystem& files() const { return *files_; }

  // Throws NewerFormatError if a later memtune wrote the sweep, UsageError if sweep.json is not memtune's.
  void check_format() const;

  // Removes temporary files of killed processes.
  void remove_temporaries() const;
  // Removes the files of model inspections, and the folder if nothing else is in it. No other process may use it.
  void remove_inspections() const;

  void write_record(const SweepJsonSettingsFactsAndTrials& record) const;
  // Throws UsageError if there is no sweep or its sweep.json is damaged, NewerFormatError for a later version.
  SweepJsonSettingsFactsAndTrials read_record() const;

  void write_measurement(const std::string& folder, const result::TrialMeasurement& measurement) const;
  // None if the file is missing, invalid or does not match its checksum.
  std::optional<result::TrialMeasurement> read_measurement(const std::string& folder) const;

  // "trials/3-checkpoint-full", with a number that no folder has yet.
  std::string new_folder(const SweepTrialEntry& spec) const;

 private:
  std::filesystem::path root_;
  std::shared_ptr<ConfinedFileSystem> files_;  // copies share it
};

// True for "trials/NAME" only. Folders from a journal or sweep.json are checked with it.
bool is_trial_folder(const std::string& folder);

// Reads the plan of a trial. None if the file is missing or invalid.
std::optional<plan::Plan> read_plan(const std::filesystem::path& path);

// "PyTorch 2.15: untested on GPU" if the sweep's engine was; "" on a CPU, and for commands, which run no engine.
std::string untested_engines(const SweepJsonSettingsFactsAndTrials& record);

// Report of a sweep, finished or not, with its recommendation.
report::Report make_report(const RunDirectory& directory, const SweepJsonSettingsFactsAndTrials& record);

}  // namespace memtune::sweep
