// What else the machine does while trials run: it takes time from them, and that is no strategy's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace memtune::sweep {

// Of the last minute; 0 where the system does not tell.
double load_average();

// Cores that this process may use.
int usable_cores();

// The time of processors from its making on, as /proc/stat has it of the usable cores.
class LoadWatch {
 public:
  LoadWatch();

  // How many cores were kept busy on average by others than this process and its children that have ended. 0 where the
  // system does not tell.
  double other_cores() const;

 private:
  std::optional<double> busy_s_;
  double own_s_ = 0;
  std::chrono::steady_clock::time_point start_;
};

// Processes that compute on a CUDA device ("cuda", "cuda:1"), as the driver's NVML tells: before a trial has begun they
// are others'. 0 where it does not tell, as in most containers.
int64_t gpu_processes(const std::string& device);

// Memory of the GPU here that has most, as NVML tells; 0 where it does not.
int64_t largest_gpu_bytes();

}  // namespace memtune::sweep
