#include "core/measure/trial/reference_gradient_checker.h"

#include <ATen/Context.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "core/measure/trial/deterministic_scope.h"

namespace memtune::trial {
namespace {

constexpr int kNoisyRepetitions = 4;  // for a baseline that is not reproducible

// "9.5e-07": std::to_string would print a small difference as 0.
std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

}  // namespace

void ReferenceGradientChecker::compare(result::TrialMeasurement& result) {
  at::manual_seed(request_.training.seed);
  result.loss.push_back(runner_.untouched_loss());
  const double loss = step();
  if (request_.envelope.reference.empty()) return runner_.drop_gradients();
  if (!request_.envelope.only_gradients && std::filesystem::exists(request_.envelope.reference)) {
    ReferenceGradientComparisonResult comparison =
        compare_with_reference(request_.envelope.reference, loss, runner_.parameters());
    result.gradients = std::move(comparison.gradients);
    if (runner_.any_rank(!comparison.has_size && !result.gradients.equal)) leave_undecided(result);
    deviation_ = std::move(comparison.worst);
  } else {
    write(loss, result);
  }
  runner_.drop_gradients();
}

void ReferenceGradientChecker::leave_undecided(result::TrialMeasurement& result) const {
  result.gradients.undecided = true;
  result.outcome = result::TrialOutcome::error;
  result.reason = "gradients differ from " + result.gradients.against + "'s, whose trial did not write them";
}

// Repeats the step, because a strategy cannot reproduce what the model itself does not. The size of the noise needs a
// few runs.
void ReferenceGradientChecker::write(double loss, result::TrialMeasurement& result) {
  const plan::TrialFilesAndRank& envelope = request_.envelope;
  if (!envelope.gradients && !envelope.only_gradients && write_hashes(loss, result)) return;
  ReferenceGradientFileWriter reference(request_.envelope.reference, request_.plan.strategy, loss,
                                        runner_.parameters());
  repeat(reference, loss);
  if (runner_.any_rank(!reference.noise().equal))
    for (int i = 1; i < kNoisyRepetitions; ++i) repeat(reference, loss);
  reference.finish();
  result.gradients = reference.noise();
}

// False if the second run is another, which is in `loss` and the gradients then.
bool ReferenceGradientChecker::write_hashes(double& loss, result::TrialMeasurement& result) {
  ReferenceGradientFileWriter reference(request_.envelope.reference, request_.plan.strategy, loss, runner_.parameters(),
                                        ReferenceHashesOrGradients::hashes);
  repeat(reference, loss);
  if (runner_.any_rank(!reference.noise().equal)) return false;
  reference.finish();
  result.gradients = reference.noise();
  return true;
}

void ReferenceGradientChecker::repeat(ReferenceGradientFileWriter& reference, double& loss) {
  runner_.drop_gradients();
  loss = step();
  reference.repeat(loss, runner_.parameters());
}

double ReferenceGradientChecker::step() {
  try {
    return step(deterministic_);
  } catch (const c10::Error& error) {
    if (!deterministic_ || !lacks_deterministic_kernel(error)) throw;
    deterministic_ = false;
    runner_.drop_gradients();
    return step(deterministic_);
  }
}

double ReferenceGradientChecker::step(bool deterministic) {
  DeterministicScope scope(deterministic);
  at::manual_seed(request_.training.seed);
  return runner_.untouched_step().item<double>();
}

void ReferenceGradientChecker::evaluate(result::TrialMeasurement& result) const {
  const auto& gradients = result.gradients;
  if (!gradients.compared || gradients.equal || gradients.against == request_.plan.strategy) return;
  if (deviation_.where.empty()) {
    result.reason = "gradients differ by no more than the baseline's own runs";
    return;
  }
  result.outcome = result::TrialOutcome::mismatch;
  result.reason = "gradients differ from " + gradients.against + "'s, most in " + deviation_.where + " by " +
                  short_number(deviation_.difference);
  if (deviation_.allowed > 0) result.reason += ", and its own runs allow " + short_number(deviation_.allowed);
}

}  // namespace memtune::trial
