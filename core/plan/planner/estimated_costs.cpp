#include "core/plan/planner/estimated_costs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/plan/planner/cross_machine_roofline.h"
#include "core/plan/planner/step_costs_with_waits_for_host.h"

namespace memtune::planner {
namespace {

using plan::OpClass;
using plan::RecordedStepCosts;

// Shares of the roofline that ops of a class reached in recorded steps of seven trainings on an H200, forward and
// backward; those of convolutions, unfused attention and other optimizers than AdamW in a step of one training each.
struct Share {
  double forward, backward;
};
constexpr Share kMatmul{0.68, 0.62}, kAttention{0.60, 0.42}, kReduction{0.43, 0.75}, kNorm{0.30, 0.30},
    kOther{0.45, 0.42};
constexpr Share kDepthwiseConvolution{0.065, 0.05};  // bound by memory
constexpr Share kUnfusedAttention{0.085, 0.18};      // keeps its scores, and computes in float32
constexpr double kUpdate = 0.55, kUpdate8Bit = 0.14, kUpdateAdafactor = 0.05;
constexpr double kKernelMs = 0.003;  // a kernel takes at least this
// The host's time to issue an op with kernels, its backward if it saved something and if not, one without kernels, and
// a copy, in recorded steps of 18 trainings, where the host was not held up.
struct IssueMs {
  double forward, backward, unsaved_backward;
};
constexpr IssueMs kIssueMatmul{0.100, 0.145, 0.080}, kIssueAttention{0.065, 0.105, 0},
    kIssueConvolution{0.040, 0.090, 0}, kIssueOther{0.013, 0.062, 0.010};
constexpr double kIssueViewMs = 0.003, kIssueCopyMs = 0.003;
constexpr double kHookMs = 0.002;  // of the engines, for each op

bool keeps_scores(const plan::ProgramOpFacts& op) {
  return !op.output_bytes.empty() && op.private_bytes > 4 * op.output_bytes.front();
}

Share share(const plan::ProgramOpFacts& op, bool bound_by_arithmetic) {
  switch (op.op_class) {
    case OpClass::matmul: return kMatmul;
    case OpClass::convolution: return bound_by_arithmetic ? kMatmul : kDepthwiseConvolution;
    case OpClass::attention: return keeps_scores(op) ? kUnfusedAttention : kAttention;
    case OpClass::reduction: return kReduction;
    case OpClass::norm: return kNorm;
    default: return kOther;
  }
}

IssueMs issue_ms(const plan::ProgramOpFacts& op) {
  switch (op.op_class) {
    case OpClass::matmul: return kIssueMatmul;
    case OpClass::convolution: return kIssueConvolution;
    case OpClass::attention: return kIssueAttention;
    default: return kIssueOther;
  }
}

double update_share(const std::string& optimizer) {
  if (optimizer == "adafactor") return kUpdateAdafactor;
  return optimizer.ends_with("_8bit") ? kUpdate8Bit : kUpdate;
}

double at_least_a_kernel(double ms, double of) { return ms > 0 ? std::max(kKernelMs, ms / of) : 0; }

// An update reads parameters, gradients and states, and writes parameters and states.
double update_bytes(const RecordedStepCosts& costs) {
  double bytes = 0;
  for (const RecordedStepCosts::StateUnit& unit : costs.states.units)
    bytes += 3.0 * static_cast<double>(unit.trained_bytes) + 2.0 * static_cast<double>(unit.moment_bytes);
  return bytes;
}

}  // namespace

RecordedStepCosts estimated_costs(const plan::ProgramFacts& facts, RecordedStepCosts costs,
                                  const plan::MachineProfile& machine, const std::string& dtype,
                                  const std::string& optimizer) {
  const CrossMachineRoofline roofline(facts, costs, machine, machine, dtype);
  const auto op_of = [&](int run) -> const plan::ProgramOpFacts& {
    return facts.ops[static_cast<size_t>(costs.runs[static_cast<size_t>(run)].op)];
  };
  // The last tensor that backward unpacks for an op starts its kernels.
  std::vector<size_t> last(costs.runs.size(), costs.moments.size());
  for (size_t i = 0; i < costs.moments.size(); ++i)
    if (costs.moments[i].kind == RecordedStepCosts::Moment::Kind::unpack)
      last[static_cast<size_t>(costs.saved[static_cast<size_t>(costs.moments[i].saved)].run)] = i;
  costs.issue = {};
  costs.issue.runs.resize(costs.runs.size());
  costs.issue.moments.resize(costs.moments.size());
  double unsaved_ms = 0;  // backward of ops that saved nothing runs with the next one
  for (size_t run = 0; run < costs.runs.size(); ++run) {
    const int number = static_cast<int>(run);
    const bool has_kernels = !costs.runs[run].makes.empty();
    const Share of = share(op_of(number), roofline.bound_by_arithmetic(number));
    const IssueMs issue = issue_ms(op_of(number));
    costs.runs[run].ms = at_least_a_kernel(roofline.forward(number).to_ms, of.forward);
    costs.issue.runs[run].ms = has_kernels ? issue.forward : kIssueViewMs;
    const bool saves = last[run] != costs.moments.size();
    if (has_kernels) unsaved_ms += saves ? issue.backward : issue.unsaved_backward;
    if (!saves) continue;
    costs.moments[last[run]].ms = at_least_a_kernel(roofline.backward(number).to_ms, of.backward);
    costs.issue.moments[last[run]].ms = std::exchange(unsaved_ms, 0);
  }
  costs.issue.engine_ms = kHookMs * static_cast<double>(costs.runs.size());
  costs.issue.copy_ms = kIssueCopyMs;
  costs.after_ms = roofline.moved(update_bytes(costs)).to_ms / update_share(optimizer);
  costs.out_gb_per_s = machine.link_out_gb_per_s;
  costs.in_gb_per_s = machine.link_in_gb_per_s;
  costs.step_ms = issue_step(costs).step_ms;
  return costs;
}

}  // namespace memtune::planner
