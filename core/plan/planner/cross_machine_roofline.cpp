#include "core/plan/planner/cross_machine_roofline.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/record/trace/private_save.h"

namespace memtune::planner {
namespace {

using plan::MachineProfile;
using plan::OpClass;
using plan::ProgramOpFacts;
using plan::RecordedStepCosts;

constexpr double kFlopsPerMs = 1e9;  // at 1 TFLOP/s
constexpr double kMaxFlops = 1e24;
constexpr double kBackward = 2;  // gradients of both operands

bool multiplies(const ProgramOpFacts& op) {
  return plan::is_matmul(op.op_class) || op.op_class == OpClass::attention || op.op_class == OpClass::recurrent ||
         op.op_class == OpClass::linear_algebra;
}

// LibTorch lets cuDNN use TF32 for float32 convolutions; cuBLAS may not use it.
std::string rate_name(const ProgramOpFacts& op, const std::string& dtype) {
  return op.op_class == OpClass::convolution && dtype == "float32" ? "tf32" : dtype;
}

// For ops that multiply no matrices, if both machines have a float32 rate.
double plain_ratio(const MachineProfile& from, const MachineProfile& to, double otherwise) {
  const auto here = from.tflops.find("float32"), there = to.tflops.find("float32");
  return here == from.tflops.end() || there == to.tflops.end() ? otherwise : here->second / there->second;
}

double rate(const MachineProfile& machine, std::string name) {
  if (name == "tf32" && !machine.tflops.contains(name)) name = "float32";
  if (const auto found = machine.tflops.find(name); found != machine.tflops.end()) return kFlopsPerMs * found->second;
  std::vector<std::string> known;
  for (const auto& [other, tflops] : machine.tflops) known.push_back(other);
  throw UsageError("machine '" + machine.name + "' has no rate of " + name +
                   ", in which this model multiplies; it has " + join(known, ", "));
}

// A file may contain any number.
double known_flops(const ProgramOpFacts& op) { return op.flops > 0 && op.flops < kMaxFlops ? op.flops : 0; }

int width(const std::string& dtype) { return dtype == "float64" ? 8 : dtype == "float32" ? 4 : 2; }

double bytes_of(const RecordedStepCosts& costs, const std::vector<int>& values, bool outputs_only = false) {
  double bytes = 0;
  for (const int value : values) {
    const RecordedStepCosts::Value& one = costs.values[static_cast<size_t>(value)];
    if (one.output != kPrivateSave || !outputs_only) bytes += static_cast<double>(one.bytes);
  }
  return bytes;
}

// An operand of a matmul that is not a value is a parameter. For matrices M by K, K by N and M by N, the product of the
// element counts is the square of the multiply-adds.
double parameter_bytes(const plan::ProgramFacts& facts, const RecordedStepCosts& costs,
                       const RecordedStepCosts::Run& run, double flops, int width) {
  if (facts.ops[static_cast<size_t>(run.op)].op_class != OpClass::matmul || run.reads.size() != 1) return 0;
  const double read = bytes_of(costs, run.reads) / width, made = bytes_of(costs, run.makes, true) / width;
  if (read == 0 || made == 0) return 0;
  return width * std::min((flops / 2) * (flops / 2) / read / made, static_cast<double>(facts.parameters));
}

// A view moves nothing.
double moved_bytes(const RecordedStepCosts& costs, const RecordedStepCosts::Run& run) {
  return run.makes.empty() ? 0 : bytes_of(costs, run.reads) + bytes_of(costs, run.makes);
}

}  // namespace

RooflineTimeOnSourceAndTargetMachine& RooflineTimeOnSourceAndTargetMachine::operator+=(
    const RooflineTimeOnSourceAndTargetMachine& other) {
  from_ms += other.from_ms;
  to_ms += other.to_ms;
  return *this;
}

CrossMachineRoofline::CrossMachineRoofline(const plan::ProgramFacts& facts, const RecordedStepCosts& costs,
                                           const MachineProfile& from, const MachineProfile& to,
                                           const std::string& dtype)
    : memory_{1 / (plan::kBytesPerMs * from.memory_gb_per_s), 1 / (plan::kBytesPerMs * to.memory_gb_per_s)} {
  std::vector<int> times(facts.ops.size());  // facts sum up an op's runs
  for (const RecordedStepCosts::Run& run : costs.runs) ++times[static_cast<size_t>(run.op)];
  RooflineTimeOnSourceAndTargetMachine unsaved;
  for (const RecordedStepCosts::Run& run : costs.runs) {
    const ProgramOpFacts& op = facts.ops[static_cast<size_t>(run.op)];
    const double flops = known_flops(op) / times[static_cast<size_t>(run.op)];
    const std::string& own = op.dtype.empty() ? dtype : op.dtype;
    unknown_.push_back(multiplies(op) && flops == 0);
    by_arithmetic_.push_back(false);
    RooflineTimeOnSourceAndTargetMachine roof;
    if (!multiplies(op)) {
      arithmetic_.push_back(plain_ratio(from, to, memory_ratio()));
      roof = moved(moved_bytes(costs, run));
    } else {
      const double from_rate = rate(from, rate_name(op, own)), to_rate = rate(to, rate_name(op, own));
      arithmetic_.push_back(from_rate / to_rate);
      if (flops > 0) roof = moved(moved_bytes(costs, run) + parameter_bytes(facts, costs, run, flops, width(own)));
      by_arithmetic_.back() = flops / from_rate > roof.from_ms;
      roof = {std::max(roof.from_ms, flops / from_rate), std::max(roof.to_ms, flops / to_rate)};
    }
    forward_.push_back(roof);
    if (run.saves.empty()) {
      unsaved += roof;
      backward_.emplace_back();
    } else {
      backward_.push_back({kBackward * roof.from_ms + unsaved.from_ms, kBackward * roof.to_ms + unsaved.to_ms});
      unsaved = {};
    }
  }
}

}  // namespace memtune::planner
