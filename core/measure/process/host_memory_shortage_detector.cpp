#include "core/measure/process/host_memory_shortage_detector.h"

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"

namespace memtune::process {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};
// What a fast process can take between two looks, and little enough that no model needs it.
constexpr int64_t kPart = 32, kLeast = int64_t{128} << 20, kMost = int64_t{1} << 30;

}  // namespace

HostMemoryShortageDetector::HostMemoryShortageDetector(std::function<int64_t()> available)
    : available_(std::move(available)),
      start_bytes_(available_()),
      reserve_bytes_(std::clamp(start_bytes_ / kPart, kLeast, kMost)) {}

bool HostMemoryShortageDetector::is_short() {
  const auto now = std::chrono::steady_clock::now();
  if (short_ || now < next_) return short_;
  next_ = now + kBetweenLooks;
  // A machine that had hardly any memory to begin with may still have enough for a small model.
  short_ = start_bytes_ >= 2 * reserve_bytes_ && available_() < reserve_bytes_;
  return short_;
}

std::string HostMemoryShortageDetector::reason() const {
  return "less than " + format_bytes(reserve_bytes_) + " are left of the " + format_bytes(start_bytes_) +
         " that were available at its start";
}

}  // namespace memtune::process
