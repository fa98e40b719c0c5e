#include "core/sweep/doctor/doctor_checks.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "core/base/error.h"
#include "core/engine/disk/disk_probe.h"

namespace memtune::sweep {
namespace {

// The checks of memtune-trial, or a failed check if it does not answer.
std::vector<DoctorCheckResult> ask_doctor(const std::string& device) {
  TrialAnswer answer = run_trial_process({{"doctor", device}, "", std::chrono::minutes(2), {}});
  if (auto* checks = std::get_if<std::vector<DoctorCheckResult>>(&answer)) return std::move(*checks);
  std::string detail = "gave another answer than was asked for";
  if (const auto* failure = std::get_if<ProcessFailure>(&answer)) detail = failure->reason;
  if (const auto* problem = std::get_if<ReceivedUsageError>(&answer)) detail = problem->message;
  return {{"trial process", "fail", detail, "install it again, or build it again with scripts/memtune"}};
}

}  // namespace

std::vector<DoctorCheckResult> check_machine(const std::string& device) {
  std::vector<DoctorCheckResult> checks = {{"memtune", "ok", MEMTUNE_VERSION, ""}};
  try {
    checks.push_back({"memtune-trial", "ok", find_trial_program().string(), ""});
  } catch (const UsageError& error) {
    checks.push_back({"memtune-trial", "fail", "not found: no trial can run", error.what()});
    return checks;
  }
  for (DoctorCheckResult& check : ask_doctor(device)) checks.push_back(std::move(check));
  return checks;
}

DoctorCheckResult check_scratch(const std::string& directory) {
  constexpr int64_t kProbeBytes = int64_t{1} << 30;
  try {
    const disk::MeasuredDiskBandwidth speed = disk::probe_disk(directory, kProbeBytes);
    char rates[96];
    std::snprintf(rates, sizeof rates, "%.2f GB/s write, %.2f GB/s read, %.2f GB/s into a new file",
                  speed.write_gb_per_s, speed.read_gb_per_s, speed.new_file_gb_per_s);
    return {"scratch folder", "ok", directory + ": " + rates + " (" + speed.how + ")", ""};
  } catch (const Error& error) {
    return {"scratch folder", "fail", error.what(), "give another --scratch"};
  }
}

}  // namespace memtune::sweep
