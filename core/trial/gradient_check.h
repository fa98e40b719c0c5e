// Whether a strategy's gradients are those of the untouched model, bit for bit; where that does not repeat itself,
// within what its own runs differ by.
#pragma once

#include "core/config/trial_request.h"
#include "core/result/measurement.h"
#include "core/trial/reference.h"
#include "core/trial/runner.h"

namespace memtune::trial {

class GradientCheck {
 public:
  GradientCheck(const config::TrialRequest& request, Runner& runner) : request_(request), runner_(runner) {}

  // Runs the untouched step, whose loss and gradients are written when nobody did before, else compared. Fills in the
  // loss and the gradients' part of `result`. Throws what steps throw.
  void compare(result::Measurement& result);

  // Makes a mismatch of a trial that went well where they differ by more than they may.
  void judge(result::Measurement& result) const;

 private:
  double step();
  double step(bool deterministic);
  void write(double loss, result::Measurement& result);

  const config::TrialRequest& request_;
  Runner& runner_;
  Deviation deviation_;  // from the reference, of what differs by more than it may
  bool deterministic_ = true;
};

}  // namespace memtune::trial
