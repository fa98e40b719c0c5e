// Load of the machine by other processes while trials run, because it makes their steps slower.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace memtune::sweep {

// Load average of the last minute; 0 if unknown.
double load_average();

// Cores that this process may use.
int usable_cores();

// Measures processor time since its construction: the lines of the usable cores in /proc/stat.
class OtherProcessCpuLoadMonitor {
 public:
  OtherProcessCpuLoadMonitor();

  // Average number of cores that other processes kept busy. This process and its children that have ended do not count.
  // 0 if unknown.
  double other_cores() const;

 private:
  std::optional<double> busy_s_;
  double own_s_ = 0;
  std::chrono::steady_clock::time_point start_;
};

// Number of processes that compute on a CUDA device ("cuda", "cuda:1"), from NVML. Before a trial starts these are
// other programs. 0 if unknown, as in most containers.
int64_t gpu_processes(const std::string& device);

// Total memory of the largest GPU in this machine, from NVML; 0 if unknown.
int64_t largest_gpu_bytes();

}  // namespace memtune::sweep
