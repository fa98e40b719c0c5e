// Checks that a strategy's gradients equal those of the baseline bit for bit. If the baseline itself is not
// reproducible, they may differ as much as its own runs do.
#pragma once

#include "core/measure/trial/reference.h"
#include "core/measure/trial/step_runner.h"
#include "core/plan/request/trial_request.h"
#include "core/record/measurement/measurement.h"

namespace memtune::trial {

class GradientCheck {
 public:
  GradientCheck(const plan::TrialRequest& request, StepRunner& runner) : request_(request), runner_(runner) {}

  // Runs a step that changes nothing but gradients. Compares loss and gradients with the reference file, or writes that
  // if it does not exist: hashes of gradients, or gradients if the request asks for them or if they are not
  // reproducible. Fills in the fields of loss and gradients. Throws what steps throw.
  void compare(result::Measurement& result);

  // They differ on some rank, and a reference without gradients does not show by how much. Written by compare().
  bool is_undecided() const { return undecided_; }

  // Turns a successful trial into a mismatch if they differ by more than they may.
  void evaluate(result::Measurement& result) const;

 private:
  double step();
  double step(bool deterministic);
  void write(double loss, result::Measurement& result);
  void leave_undecided(result::Measurement& result) const;
  bool write_hashes(double& loss, result::Measurement& result);
  void repeat(ReferenceWriter& reference, double& loss);

  const plan::TrialRequest& request_;
  StepRunner& runner_;
  GradientDeviation deviation_;  // from the reference, by more than is allowed
  bool deterministic_ = true;
  bool undecided_ = false;
};

}  // namespace memtune::trial
