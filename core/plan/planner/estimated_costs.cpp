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
// backward.
struct Share {
  double forward, backward;
};
constexpr Share kMatmul{0.68, 0.62}, kAttention{0.60, 0.42}, kReduction{0.43, 0.75}, kNorm{0.30, 0.30},
    kOther{0.45, 0.42};
constexpr double kUpdate = 0.55;
constexpr double kKernelMs = 0.003;  // a kernel takes at least this
// The host's time to issue an op with kernels, its backward, one without, and a copy, on the same machines.
constexpr double kIssueMs = 0.020, kIssueBackwardMs = 0.045, kIssueViewMs = 0.003, kIssueCopyMs = 0.003;
constexpr double kHookMs = 0.002;  // of the engines, for each op

Share share(const plan::ProgramOpFacts& op) {
  switch (op.op_class) {
    case OpClass::matmul:
    case OpClass::convolution: return kMatmul;
    case OpClass::attention: return kAttention;
    case OpClass::reduction: return kReduction;
    case OpClass::norm: return kNorm;
    default: return kOther;
  }
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
                                  const plan::MachineProfile& machine, const std::string& dtype) {
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
    const Share of = share(op_of(number));
    costs.runs[run].ms = at_least_a_kernel(roofline.forward(number).to_ms, of.forward);
    costs.issue.runs[run].ms = has_kernels ? kIssueMs : kIssueViewMs;
    unsaved_ms += has_kernels ? kIssueBackwardMs : 0;
    if (last[run] == costs.moments.size()) continue;
    costs.moments[last[run]].ms = at_least_a_kernel(roofline.backward(number).to_ms, of.backward);
    costs.issue.moments[last[run]].ms = std::exchange(unsaved_ms, 0);
  }
  costs.issue.engine_ms = kHookMs * static_cast<double>(costs.runs.size());
  costs.issue.copy_ms = kIssueCopyMs;
  costs.after_ms = roofline.moved(update_bytes(costs)).to_ms / kUpdate;
  costs.out_gb_per_s = machine.link_out_gb_per_s;
  costs.in_gb_per_s = machine.link_in_gb_per_s;
  costs.step_ms = issue_step(costs).step_ms;
  return costs;
}

}  // namespace memtune::planner
