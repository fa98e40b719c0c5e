#include "core/sweep/predict/other_machine_cost_prediction.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/sweep/predict/multiplication_dtype.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using plan::MachineProfile;

MachineProfile machine_flag(const std::string& flag, const std::string& name) try {
  return plan::find_machine(name);
} catch (const UsageError& error) {
  throw UsageError(flag + ": " + error.what());
}

// The machine of the run: --from-machine, else `to` if it has the run's device, else a shipped profile.
MachineProfile source_machine(const SourceTargetMachineNames& names, const MachineProfile& to,
                              const std::string& device, bool emulated) {
  if (!names.from.empty()) {
    MachineProfile from = machine_flag("--from-machine", names.from);
    if (from.emulated == emulated) return from;
    throw UsageError("--from-machine: '" + from.name + (emulated ? "' is not emulated" : "' is emulated") +
                     " by the CPU, and the run was measured on '" + device + "'");
  }
  if (std::ranges::count(to.devices, device) > 0) return to;
  if (auto shipped = plan::machine_of_device(device)) return *shipped;
  throw UsageError(
      "no known machine has the device '" + device +
      "' of the run; give --from-machine a file that memtune doctor --probe --write made there, or one of " +
      join(plan::machine_names(), ", "));
}

// Refuses to compare an emulated device with a real one.
void check_comparable(const MachineProfile& from, const MachineProfile& to) {
  if (from.emulated == to.emulated) return;
  throw UsageError(
      "if the CPU emulates the device, as in '" + (from.emulated ? from : to).name +
      "', times say nothing about a GPU; its peaks hold: memtune plan --from without --machine shows them");
}

std::string gb_per_s(double rate) { return fixed(rate, 1) + " GB/s"; }

}  // namespace

OtherMachineCostPrediction::OtherMachineCostPrediction(const SourceTargetMachineNames& names,
                                                       const plan::ProgramFacts& program,
                                                       const planner::BatchExtrapolatedCostRange& costs,
                                                       const plan::TrainingSettings& training,
                                                       const std::string& device, bool emulated)
    : to_(machine_flag("--machine", names.machine)),
      from_(source_machine(names, to_, device, emulated)),
      by_name_(names.from.empty()),
      device_(device),
      costs_(scaled_costs(program, costs.likely, training)),
      least_costs_(scaled_costs(program, costs.least, training).least),
      most_costs_(scaled_costs(program, costs.most, training).most),
      least_(program, least_costs_),
      most_(program, most_costs_) {}

planner::CostRangeConvertedToOtherMachine OtherMachineCostPrediction::scaled_costs(
    const plan::ProgramFacts& program, const plan::RecordedStepCosts& costs,
    const plan::TrainingSettings& training) const {
  check_comparable(from_, to_);
  return planner::scale_costs(program, costs, from_, to_, multiplication_dtype(program, training));
}

report::PredictedStepTimeRange OtherMachineCostPrediction::range(const plan::Plan& plan) const {
  return {least_.predict(plan).step_ms, most_.predict(plan).step_ms};
}

std::string OtherMachineCostPrediction::title() const {
  return (from_.name == device_ ? std::string() : "measured on " + from_.name + ", ") + "planned for " + to_.name;
}

std::vector<std::string> OtherMachineCostPrediction::notes(const std::vector<int64_t>& budgets) const {
  std::vector<std::string> notes;
  if (from_ == to_)
    notes.push_back(
        "step ms: as measured, because both machines are " + to_.name +
        (by_name_ ? ", by the name of the device; if another machine of that name measured, name it with --from-machine"
                  : ""));
  else
    notes.push_back("step ms: the part of an op's time that arithmetic or memory explain on " + from_.name +
                    " scales with them; the rest scales with one of them or stays, whichever is in the middle. From, "
                    "to: the other two. Peaks are those of the measured step.");
  if (from_.basis != to_.basis)
    notes.push_back("the rates of " + (from_.basis == MachineProfile::Basis::measured ? from_ : to_).name +
                    " are measured, those of the other are from a data sheet, which no program reaches: use files of "
                    "memtune doctor --probe for both");
  if (to_.link_out_gb_per_s == 0 || to_.link_in_gb_per_s == 0)
    notes.push_back("the PCIe bandwidth of " + to_.name + " is not known: using the measured one, " +
                    gb_per_s(costs_.likely.out_gb_per_s) + " out, " + gb_per_s(costs_.likely.in_gb_per_s) + " in");
  if (std::ranges::any_of(budgets, [&](int64_t budget) { return budget > to_.memory_bytes; }))
    notes.push_back(to_.name + " has " + format_bytes(to_.memory_bytes) +
                    ", and the driver takes some of it: a larger budget does not fit");
  return notes;
}

json OtherMachineCostPrediction::to_json() const { return {{"measured_on", from_}, {"planned_for", to_}}; }

}  // namespace memtune::sweep
