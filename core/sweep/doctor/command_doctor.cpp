#include "core/sweep/doctor/command_doctor.h"

#include <charconv>

#include "core/base/temporary_folder.h"
#include "core/measure/attach/command.h"
#include "core/measure/process/interrupt.h"

namespace memtune::sweep {
namespace {

constexpr int kMinMajor = 2, kMinMinor = 4;  // oldest PyTorch that is tested

bool is_too_old(const std::string& version) {
  int major = 0, minor = 0;
  const char* end = version.data() + version.size();
  const char* dot = std::from_chars(version.data(), end, major).ptr;
  if (dot != end) std::from_chars(dot + 1, end, minor);
  return major < kMinMajor || (major == kMinMajor && minor < kMinMinor);
}

DoctorCheckResult check_steps(const result::TrialMeasurement& m) {
  if (m.outcome != result::TrialOutcome::ok) return {"command", "fail", to_string(m.outcome) + ": " + m.reason, ""};
  return {"command", "ok", "its optimizer steps are seen", ""};
}

DoctorCheckResult check_torch(const std::string& version) {
  if (is_too_old(version))
    return {"PyTorch", "warn", version + ": versions before 2.4 are not tested",
            "a newer PyTorch in the command's environment"};
  return {"PyTorch", "ok", version, ""};
}

DoctorCheckResult check_device(const result::TrialMeasurement& m) {
  if (m.device.starts_with("CPU"))
    return {"device", "warn", m.device + ": no copies are traced, and the peak is the process's resident memory", ""};
  return {"device", "ok", m.device, ""};
}

DoctorCheckResult check_trace(const attach::MeasuredTrainingCommandResult& result) {
  if (!result.device_traced)
    return {"copies and kernels", "warn", "not traced", "memtune doctor says whether CUPTI is there"};
  return {"copies and kernels", "ok", "traced", ""};
}

DoctorCheckResult check_losses(const result::TrialMeasurement& m) {
  if (m.loss.empty()) return {"losses", "warn", "none found: variants cannot be compared by them", ""};
  return {"losses", "ok", std::to_string(m.loss.size()) + " of its first steps are read", ""};
}

}  // namespace

std::vector<DoctorCheckResult> check_command(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  const TemporaryFolder folder("doctor");
  attach::CommandSettings settings;
  settings.command = command;
  settings.steps = {1, 1, 1};
  settings.folder = folder.path();
  settings.limit = limit;
  const process::InterruptScope interrupts;
  const attach::MeasuredTrainingCommandResult result = attach::measure_command(settings);
  const result::TrialMeasurement& m = result.row.measurement;
  std::vector<DoctorCheckResult> checks = {check_steps(m)};
  if (!result.torch.empty()) {
    checks.push_back(check_torch(result.torch));
    checks.push_back(check_device(m));
    if (!m.device.starts_with("CPU")) checks.push_back(check_trace(result));
    checks.push_back(check_losses(m));
  }
  for (const std::string& note : result.notes)
    if (!note.starts_with("on a CPU")) checks.push_back({"note", "warn", note, ""});
  return checks;
}

}  // namespace memtune::sweep
