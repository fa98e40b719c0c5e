// The folder of a sweep, which holds all that reports need:
//
//   sweep.json                     its format, settings, facts and the list of trials
//   journal.jsonl  lock            what has begun and ended; who is at it
//   reference-<setting>.bin        loss and gradients that trials of one setting are compared with, and their noise
//   inspect/<setting>/             request, log and facts of a look at the model
//   saving/                        while saves are measured: the states
//   trials/<n>-<name>/             request.json  plan.json  measurement.json  trace.mttrace  log.txt
//                                  round.json  round.txt: request and log of the latest later round
//                                  of a command's variant neither requests nor plan, but the file it was started with
//                                  save.json  save.txt: of the latest that measured saves
//
// Whoever made the folder may have put links, pipes or other people's files there: nothing is followed, waited for, or
// removed that memtune did not write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/own_folder.h"
#include "core/config/trial_request.h"
#include "core/report/report.h"
#include "core/result/predicted.h"
#include "core/result/recommend.h"
#include "core/sweep/command_variants.h"
#include "core/sweep/trial_process.h"

namespace memtune::sweep {

// One trial of a sweep, in the order of running.
struct TrialSpec {
  std::string strategy;
  std::optional<int64_t> batch, sequence;  // set when an axis
  std::string key;
  std::string folder;                               // relative to the run directory
  std::vector<result::SaveMeasurement> saves = {};  // under its plan, or its own, where they were measured
  std::vector<std::string> notes = {};              // for people
  std::optional<result::Predicted> predicted = {};  // before it ran
};

// sweep.json.
struct SweepRecord {
  std::string model;  // for people: "model.pt", "small (profile)"
  std::string machine;
  std::optional<CommandSweep> command;  // then there is neither of the next two
  config::TrialRequest request;         // what all trials share
  ModelFacts facts;                     // at the first setting
  trace::Origin origin;                 // of the sweep that measured last; empty in files of before it was written
  std::vector<TrialSpec> trials;
  int64_t budget_bytes = 0;  // 0: none
  result::Goal goal = result::Goal::throughput;
  int64_t global_batch = 0;                      // samples a step, of batches in several passes; 0: a step is one batch
  double mtbf_s = 0;                             // mean time between failures of the job; 0: not given
  int64_t keep_last = 0;                         // saved states that the training is to keep; 0: all
  std::vector<result::Frontier> frontiers = {};  // one a setting that was planned for
};

// A later memtune wrote the folder; it must not be written over.
class NewerFormat : public UsageError {
  using UsageError::UsageError;
};

class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root, FileSystem& below = system_files())
      : root_(std::move(root)), files_(std::make_shared<OwnFolder>(root_, below)) {}

  std::filesystem::path operator/(const std::filesystem::path& relative) const { return root_ / relative; }
  const std::filesystem::path& root() const { return root_; }

  // For what is beneath root(), by its whole path.
  OwnFolder& files() const { return *files_; }

  // NewerFormat when a later memtune wrote the sweep that is here, UsageError when sweep.json is somebody else's.
  void check_format() const;

  // What processes left that were killed while they wrote.
  void remove_temporaries() const;
  // All that a look at a model wrote, and the folder when that was all. Nobody else may use it.
  void remove_looks() const;

  void write_record(const SweepRecord& record) const;
  // UsageError when there is no sweep here or its sweep.json is damaged; NewerFormat.
  SweepRecord read_record() const;

  void write_measurement(const std::string& folder, const result::Measurement& measurement) const;
  // Nothing when it is missing, makes no sense or does not have its checksum.
  std::optional<result::Measurement> read_measurement(const std::string& folder) const;

  // "trials/3-checkpoint-full": with a number that no folder here has yet.
  std::string new_folder(const TrialSpec& spec) const;

 private:
  std::filesystem::path root_;
  std::shared_ptr<OwnFolder> files_;  // copies share it
};

// "trials/NAME": nothing else is a trial's folder, whatever a journal or sweep.json says.
bool is_trial_folder(const std::string& folder);

// A trial's plan; nothing when the file is missing or makes no sense.
std::optional<config::Plan> read_plan(const std::filesystem::path& path);

// What is there of a sweep, finished or not, with its recommendation.
report::Report make_report(const RunDirectory& directory, const SweepRecord& record);

}  // namespace memtune::sweep
