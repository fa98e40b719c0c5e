#include "core/sweep/doctor/doctor_probe.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/answer/report/text/columns.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/engine/disk/disk_probe.h"
#include "core/record/trace/run_provenance.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {
namespace {

using plan::MachineProfile;

constexpr int64_t kDiskBytes = int64_t{1} << 30;
constexpr std::chrono::minutes kLimit{5};
constexpr size_t kDate = 10;  // characters of a date: 2026-11-22

MachineProfile ask_trial(const std::string& device, const std::function<void(const std::string&)>& progress) {
  const auto note = [&](const TrialPhaseProgress& phase) { progress(phase.note); };
  TrialAnswer answer = run_trial_process({{"probe", device}, "", kLimit, note});
  if (auto* machine = std::get_if<MachineProfile>(&answer)) return std::move(*machine);
  if (const auto* problem = std::get_if<ReceivedUsageError>(&answer)) throw UsageError(problem->message);
  if (const auto* failure = std::get_if<ProcessFailure>(&answer)) throw Error("the probe: " + failure->reason);
  throw Error("the probe gave another answer than was asked for");
}

void add_disk(const disk::MeasuredDiskBandwidth& speed, const std::string& scratch, MachineProfile& machine) {
  machine.disk_write_gb_per_s = speed.write_gb_per_s;
  machine.disk_read_gb_per_s = speed.read_gb_per_s;
  machine.sources["disk"] = "measured by memtune doctor --probe on " + trace::utc_now().substr(0, kDate) + ": " +
                            format_bytes(kDiskBytes) + " in " + scratch + ", " + speed.how;
}

std::string both(double first, const char* of_first, double second, const char* of_second) {
  return fixed(first, 2) + " GB/s " + of_first + ", " + fixed(second, 2) + " GB/s " + of_second;
}

}  // namespace

MachineProfile probe_machine(const std::string& device, const std::string& scratch,
                             const std::function<void(const std::string&)>& progress) {
  std::optional<disk::MeasuredDiskBandwidth> disk;  // first, to fail early if the folder is not writable
  if (!scratch.empty()) {
    progress("measuring the disk of " + scratch);
    disk = disk::probe_disk(scratch, kDiskBytes);
  }
  MachineProfile machine = ask_trial(device, progress);
  if (disk) add_disk(*disk, scratch, machine);
  return machine;
}

std::string machine_text(const MachineProfile& machine) {
  std::vector<report::TableColumn> columns = {{"", 0, true, {}, 0}, {"", 0, true}};
  const auto add = [&](const std::string& name, const std::string& figures) {
    report::add_row(columns, {name, figures});
  };
  add("device", machine.name + (machine.emulated ? ", which emulates a GPU" : ""));
  add("memory", format_bytes(machine.memory_bytes));
  for (const auto& [dtype, tflops] : machine.tflops) add(dtype, fixed(tflops, digits_for(tflops)) + " TFLOP/s");
  add("memory copies", fixed(machine.memory_gb_per_s, 1) + " GB/s");
  if (machine.link_out_gb_per_s > 0)
    add("link", both(machine.link_out_gb_per_s, "out", machine.link_in_gb_per_s, "in"));
  if (machine.disk_write_gb_per_s > 0)
    add("disk", both(machine.disk_write_gb_per_s, "write", machine.disk_read_gb_per_s, "read"));
  if (machine.host_memory_bytes > 0) add("host memory", format_bytes(machine.host_memory_bytes));
  std::string text;
  for (size_t row = 0; row < columns[0].cells.size(); ++row) text += report::row_text(columns, row);
  return text;
}

std::string machine_json(const MachineProfile& machine) { return print_json(nlohmann::json(machine), 2) + "\n"; }

}  // namespace memtune::sweep
