// Trials of memtune's own engine: memtune-trial under the plan of a strategy, or a plan from the user's file.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/sweep/loop/inspected_model_shape_grid.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/loop/sweep_trial_proposer_and_runner.h"
#include "core/sweep/loop/trial_key.h"
#include "core/sweep/proposals/candidate_strategies_and_user_plan_files.h"
#include "core/sweep/trials/prestarted_trial_process.h"

namespace memtune::sweep {

class EngineSweepBackend : public SweepTrialProposerAndRunner {
 public:
  // All arguments outlive it. Throws UsageError, IoError.
  EngineSweepBackend(const EngineSweepSettings& settings, const CandidateStrategiesAndUserPlanFiles& candidates,
                     SweepListener& listener, const RunDirectory& directory, SweepJsonSettingsFactsAndTrials& record,
                     const TrialProposerFactory& make_proposer);

  // Inspects the model at the first setting. None after a signal.
  std::optional<ModelInspectionResult> look();
  const plan::TrialRequest& request(const SweepTrialEntry& spec) const { return requests_.at(spec.key); }

  bool describe() override;
  std::string device() const override { return settings_.request.training.device; }
  trace::RunProvenance origin() const override { return record_.facts.origin; }
  std::vector<SweepTrialAndMeasurement> next(std::span<const SweepTrialAndMeasurement> tried) override;
  std::vector<std::string> notes() const override;
  bool reuse(const SweepTrialAndMeasurement& trial, const result::TrialMeasurement& measurement) override;
  void prepare(const SweepTrialAndMeasurement& trial) override;
  TrialMeasurementSavesAndNotes measure(const SweepTrialAndMeasurement& trial, bool first,
                                        std::optional<std::chrono::milliseconds> left) override;
  void evaluate(SweepTrialAndMeasurement& trial) override;

 private:
  bool take_batch(TrialProposal& proposal);
  SweepTrialAndMeasurement trial_of(TrialProposal proposal);
  int64_t cap_of(const TrialProposal& proposal, int64_t cap_bytes) const;
  void set_axes(const InspectedModelAtShape& point, SweepTrialEntry& spec) const;
  void find_frontiers();
  bool is_whole(const std::string& reference);
  void trust(const plan::TrialRequest& request);
  bool has_references(const plan::TrialRequest& request);
  bool was_to_record(const SweepTrialEntry& spec) const;
  bool write_gradients(const SweepTrialAndMeasurement& trial, const std::string& baseline);
  result::TrialMeasurement complete(const TrialAnswer& answer, const SweepTrialAndMeasurement& trial) const;
  std::string absolute(const std::filesystem::path& relative) const;
  PrestartedTrialProcess* spare();

  const EngineSweepSettings& settings_;
  const CandidateStrategiesAndUserPlanFiles& candidates_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  SweepJsonSettingsFactsAndTrials& record_;
  const TrialProposerFactory& make_proposer_;
  PrestartedTrialProcess spare_;
  TrialKeyHasher keys_;
  InspectedModelShapeGrid axes_;
  std::unique_ptr<TrialProposer> proposer_;
  std::map<std::string, plan::TrialRequest> requests_;  // by the trial's key
  std::set<std::string> with_costs_;                    // keys of trials that record step costs
  std::set<std::string> whole_references_;
  bool any_worked_ = false;
};

}  // namespace memtune::sweep
