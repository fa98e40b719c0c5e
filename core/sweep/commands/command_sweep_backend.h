// Trials of a training command. Each runs one variant unchanged and measures it from outside (core/measure/attach).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/sweep/commands/command_sweep.h"
#include "core/sweep/loop/sweep_trial_proposer_and_runner.h"

namespace memtune::sweep {

class CommandSweepBackend : public SweepTrialProposerAndRunner {
 public:
  // All arguments outlive it.
  CommandSweepBackend(const CommandSweepSettings& settings, SweepListener& listener, const RunDirectory& directory,
                      SweepJsonSettingsFactsAndTrials& record);

  bool describe() override;
  std::string device() const override;
  trace::RunProvenance origin() const override;
  // The variants that settings.choose selects; otherwise single changes first, combinations in the next call. A dry run
  // lists both at once. Combinations that are skipped go into the record.
  std::vector<SweepTrialAndMeasurement> next(std::span<const SweepTrialAndMeasurement> tried) override;
  std::vector<std::string> notes() const override { return {}; }
  // A measurement does not depend on other trials: losses are compared with those on record.
  bool reuse(const SweepTrialAndMeasurement&, const result::TrialMeasurement&) override { return true; }
  void prepare(const SweepTrialAndMeasurement&) override {}
  // Writes the variant's files before every start.
  TrialMeasurementSavesAndNotes measure(const SweepTrialAndMeasurement& trial, bool first,
                                        std::optional<std::chrono::milliseconds> left) override;
  void evaluate(SweepTrialAndMeasurement&) override {}  // make_report does, when all rows are known

 private:
  std::optional<std::vector<SweepTrialAndMeasurement>> chosen(std::span<const SweepTrialAndMeasurement> tried);
  SweepTrialAndMeasurement trial_of(const VariantWithOrderReason& placed) const;
  const CommandVariant& variant(const SweepTrialAndMeasurement& trial) const;
  std::string key(const CommandVariant& variant) const;
  void write_files(const CommandVariant& started, const std::filesystem::path& folder) const;
  std::string own_folder(const CommandVariant& started, const std::filesystem::path& folder) const;

  const CommandSweepSettings& settings_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  SweepJsonSettingsFactsAndTrials& record_;
  bool combined_ = false;
  bool worked_ = false;                            // a start of this run did
  std::map<std::string, std::string> allocators_;  // by key: settings of PyTorch's allocator that a variant needs
};

}  // namespace memtune::sweep
