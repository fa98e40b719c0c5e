// Trials of memtune's own engine: memtune-trial under the plan of a strategy, or a plan from the user's file.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/sweep/loop/axes.h"
#include "core/sweep/proposals/candidates.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/loop/sweep_subject.h"
#include "core/sweep/loop/trial_key.h"

namespace memtune::sweep {

class PlanTrials : public SweepSubject {
 public:
  // All arguments outlive it. Throws UsageError, IoError.
  PlanTrials(const SweepSettings& settings, const Candidates& candidates, SweepListener& listener,
             const RunDirectory& directory, SweepRecord& record, const MakeProposer& make_proposer);

  // Inspects the model at the first setting. None after a signal.
  std::optional<ModelFacts> look();
  const plan::TrialRequest& request(const TrialSpec& spec) const { return requests_.at(spec.key); }

  bool describe() override;
  std::string device() const override { return settings_.request.training.device; }
  trace::Origin origin() const override { return record_.facts.origin; }
  std::vector<TrialState> next(std::span<const TrialState> tried) override;
  std::vector<std::string> notes() const override;
  bool reuse(const TrialState& trial, const result::Measurement& measurement) override;
  void prepare(const TrialState& trial) override;
  MeasuredRound measure(const TrialState& trial, bool first, std::chrono::milliseconds limit) override;
  void judge(TrialState& trial) override;

 private:
  bool take_batch(Proposal& proposal);
  TrialState trial_of(Proposal proposal);
  void set_axes(const Setting& point, TrialSpec& spec) const;
  void find_frontiers();
  bool is_whole(const std::string& reference);
  bool has_references(const plan::TrialRequest& request);
  bool was_to_record(const TrialSpec& spec) const;
  result::Measurement complete(const TrialAnswer& answer, const TrialState& trial) const;
  std::string absolute(const std::filesystem::path& relative) const;

  const SweepSettings& settings_;
  const Candidates& candidates_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  SweepRecord& record_;
  const MakeProposer& make_proposer_;
  TrialKeys keys_;
  Axes axes_;
  std::unique_ptr<Proposer> proposer_;
  std::map<std::string, plan::TrialRequest> requests_;  // by the trial's key
  std::set<std::string> with_costs_;                      // keys of trials that record step costs
  std::set<std::string> whole_references_;
  bool any_worked_ = false;
};

}  // namespace memtune::sweep
