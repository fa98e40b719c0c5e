#include "core/measure/attach/plausible.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::attach {
namespace {

constexpr double kClockRatio = 1.05, kSlackMs = 1000;  // tolerance of device clock against host clock
constexpr int64_t kMaxDevice = int64_t{1} << 43;       // 8 TiB: no GPU has as much

int64_t machine_bytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

class Doubt {
 public:
  Doubt(const CommandSettings& settings, const CommandExit& ending)
      : most_device_(settings.device_bytes > 0 ? settings.device_bytes : kMaxDevice),
        wall_ms_(static_cast<double>(ending.wall.count())) {}

  std::string about(const TrainingProcessRecords& records) const {
    if (!records.refused.empty()) return records.refused;
    double ms = 0;
    for (const StepRecord& step : records.steps) {
      ms += step.ms.value_or(0);
      double parts = std::max(step.optimizer_ms.value_or(0), step.save_ms);
      if (step.parts_ms)
        for (const result::TimeShareNameAndMemberPointer& kind : result::kTimeKinds)
          parts = std::max(parts, (*step.parts_ms).*kind.share);
      if (const std::string why = about_time(std::max(ms, parts)); !why.empty()) return where(step) + why;
      const int64_t peak = std::max({step.allocated_bytes, step.reserved_bytes, step.device_bytes});
      if (const std::string why = about_memory(peak, records.cuda); !why.empty()) return where(step) + why;
    }
    for (const OutOfMemoryRecord& record : records.failed_allocations)
      if (const result::OutOfMemoryBreakdown& oom = record.figures; oom.reserved_bytes > most_device_)
        return "an allocation in step " + std::to_string(oom.step) + " failed with " +
               format_bytes(oom.reserved_bytes) + " reserved, and there are " + format_bytes(most_device_) +
               " on a device";
    if (records.memory)
      if (const std::string why = about_memory(peak_of(records.memory->figures), records.cuda); !why.empty())
        return "step " + std::to_string(records.memory->figures.step) + why;
    for (const StateSaveRecord& save : records.saves)
      if (const std::string why = about_time(save.ms); !why.empty())
        return "the save after step " + std::to_string(save.step) + why;
    return "";
  }

 private:
  static std::string where(const StepRecord& step) { return "step " + std::to_string(step.number); }

  std::string about_time(double ms) const {
    if (wall_ms_ <= 0 || ms <= kClockRatio * wall_ms_ + kSlackMs) return "";
    return " ends after " + ms_text(ms) + " of training, and the command ran for " + ms_text(wall_ms_);
  }

  std::string about_memory(int64_t peak, bool cuda) const {
    const int64_t most = cuda ? most_device_ : machine_bytes();
    if (peak <= most) return "";
    return " has a peak of " + format_bytes(peak) + ", and there are " + format_bytes(most) +
           (cuda ? " on a device" : " in the machine");
  }

  int64_t most_device_;
  double wall_ms_;
};

}  // namespace

std::string why_implausible(std::span<const TrainingProcessRecords> processes, const CommandSettings& settings,
                            const CommandExit& ending) {
  const Doubt doubt(settings, ending);
  for (const TrainingProcessRecords& records : processes)
    if (const std::string why = doubt.about(records); !why.empty()) return why;
  return "";
}

}  // namespace memtune::attach
