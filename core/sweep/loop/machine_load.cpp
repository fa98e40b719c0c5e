#include "core/sweep/loop/machine_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

#include "core/base/device/nvml_memory_and_process_reader.h"

namespace memtune::sweep {
namespace {

cpu_set_t usable_set() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
  return set;
}

// "cpu3 user nice system idle iowait irq softirq steal guest guest_nice": sums all but idle and iowait. User includes
// guest.
std::optional<double> busy_seconds(std::istream& stat) {
  const cpu_set_t usable = usable_set();
  double ticks = 0;
  bool any = false;
  for (std::string line; std::getline(stat, line) && line.starts_with("cpu");) {
    std::istringstream words(line.substr(3));
    int core = -1;
    int64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft_irq = 0, steal = 0;
    if (line[3] == ' ' || !(words >> core >> user >> nice >> system >> idle >> wait >> irq >> soft_irq)) continue;
    words >> steal;
    if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &usable)) continue;
    ticks += static_cast<double>(user + nice + system + irq + soft_irq + steal);
    any = true;
  }
  if (!any) return {};
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::optional<double> busy_seconds() {
  std::ifstream stat("/proc/stat");
  return busy_seconds(stat);
}

// Processor time of this process's children that still run: a trial that waits for its request has taken some.
double running_children_seconds() {
  int64_t ticks = 0;
  std::error_code failed;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::ifstream children("/proc/self/task/" + task.path().filename().string() + "/children");
    for (pid_t child = 0; children >> child;) {
      std::ifstream file("/proc/" + std::to_string(child) + "/stat");
      const std::string stat(std::istreambuf_iterator<char>(file), {});
      const size_t name_end = stat.rfind(')');  // "12 (name) S ppid pgrp session tty tpgid flags minflt cminflt majflt
      if (name_end == std::string::npos) continue;  // cmajflt utime stime cutime cstime ..."
      std::istringstream words(stat.substr(name_end + 1));
      std::string skipped;
      for (int i = 0; i < 11; ++i) words >> skipped;
      for (int64_t time = 0, i = 0; i < 4 && words >> time; ++i) ticks += time;
    }
  }
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_seconds() {
  double seconds = running_children_seconds();
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    for (const timeval& time : {use.ru_utime, use.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  return seconds;
}

}  // namespace

double load_average() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : 0;
}

int usable_cores() {
  const cpu_set_t set = usable_set();
  return std::max(1, CPU_COUNT(&set));
}

OtherProcessCpuLoadMonitor::OtherProcessCpuLoadMonitor()
    : busy_s_(busy_seconds()), own_s_(own_seconds()), start_(std::chrono::steady_clock::now()) {}

double OtherProcessCpuLoadMonitor::other_cores() const {
  const std::optional<double> now = busy_seconds();
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (!now || !busy_s_ || wall_s <= 0) return 0;
  return std::max(0.0, (*now - *busy_s_ - (own_seconds() - own_s_)) / wall_s);
}

int64_t largest_gpu_bytes() { return device::NvmlMemoryAndProcessReader().largest_bytes(); }

int64_t gpu_processes(const std::string& device) {
  return device.starts_with("cuda") ? device::NvmlMemoryAndProcessReader().processes(device) : 0;
}

}  // namespace memtune::sweep
