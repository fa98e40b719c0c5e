// Notices that a process takes the last of the machine's memory, before the kernel ends some process for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace memtune::process {

class HostMemoryShortageDetector {
 public:
  // `available`: bytes of host memory that are available now.
  explicit HostMemoryShortageDetector(std::function<int64_t()> available);

  // True if less than a small part of what was available at construction is left. Looks at most every 50 ms.
  bool is_short();
  // "less than 640 MiB are left of the 20 GiB that were available at its start"
  std::string reason() const;

 private:
  std::function<int64_t()> available_;
  int64_t start_bytes_, reserve_bytes_;
  std::chrono::steady_clock::time_point next_{};
  bool short_ = false;
};

}  // namespace memtune::process
