// Trials of a training command: a variant of it each, started as it stands and measured from outside (core/attach).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/sweep/command_sweep.h"
#include "core/sweep/sweep_subject.h"

namespace memtune::sweep {

class CommandTrials : public SweepSubject {
 public:
  // All outlive it.
  CommandTrials(const CommandSweepSettings& settings, SweepListener& listener, const RunDirectory& directory,
                SweepRecord& record);

  bool describe() override;
  std::string device() const override;
  trace::Origin origin() const override;
  // What was chosen; else what changes one thing, then combinations, of a dry run all at once. Combinations that are
  // left out go into the record.
  std::vector<TrialState> next(std::span<const TrialState> tried) override;
  std::vector<std::string> notes() const override { return {}; }
  // Figures stand for themselves: losses are compared with those that are on record.
  bool reuse(const TrialState&, const result::Measurement&) override { return true; }
  void prepare(const TrialState&) override {}
  // Writes the files that the command is started with, each time.
  MeasuredRound measure(const TrialState& trial, bool first, std::chrono::milliseconds limit) override;
  void judge(TrialState&) override {}  // reports do, once all that is compared is there

 private:
  std::optional<std::vector<TrialState>> chosen(std::span<const TrialState> tried);
  TrialState trial_of(const PlacedVariant& placed) const;
  const CommandVariant& variant(const TrialState& trial) const;
  std::string key(const CommandVariant& variant) const;
  void write_files(const CommandVariant& started, const std::filesystem::path& folder) const;

  const CommandSweepSettings& settings_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  SweepRecord& record_;
  bool combined_ = false;
};

}  // namespace memtune::sweep
