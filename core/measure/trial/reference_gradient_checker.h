// Checks that a strategy's gradients equal those of the baseline bit for bit. If the baseline itself is not
// reproducible, they may differ as much as its own runs do.
#pragma once

#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/reference.h"
#include "core/plan/request/trial_request.h"
#include "core/record/measurement/trial_measurement.h"

namespace memtune::trial {

class ReferenceGradientChecker {
 public:
  ReferenceGradientChecker(const plan::TrialRequest& request, ForwardBackwardRunner& runner)
      : request_(request), runner_(runner) {}

  // Runs a step that changes nothing but gradients. Compares loss and gradients with the reference file, or writes that
  // if it does not exist: hashes of gradients, or gradients if the request asks for them or if they are not
  // reproducible. Fills in the fields of loss and gradients. If they differ on some rank from a reference of hashes,
  // the outcome is an error and the gradients are undecided. Throws what steps throw.
  void compare(result::TrialMeasurement& result);

  // Turns a successful trial into a mismatch if they differ by more than they may.
  void evaluate(result::TrialMeasurement& result) const;

 private:
  double step();
  double step(bool deterministic);
  void write(double loss, result::TrialMeasurement& result);
  void leave_undecided(result::TrialMeasurement& result) const;
  bool write_hashes(double& loss, result::TrialMeasurement& result);
  void repeat(ReferenceGradientFileWriter& reference, double& loss);

  const plan::TrialRequest& request_;
  ForwardBackwardRunner& runner_;
  ExcessiveGradientDeviation deviation_;  // from the reference, by more than is allowed
  bool deterministic_ = true;
};

}  // namespace memtune::trial
