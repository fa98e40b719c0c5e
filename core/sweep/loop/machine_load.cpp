#include "core/sweep/loop/machine_load.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"

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

double own_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    for (const timeval& time : {use.ru_utime, use.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  return seconds;
}

// NVML numbers all GPUs of the machine. CUDA numbers those that CUDA_VISIBLE_DEVICES lists by number or UUID.
std::string nvml_name(const std::string& device) {
  const int64_t number = device.starts_with("cuda:") ? std::atoi(device.c_str() + 5) : 0;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible || !*visible) return std::to_string(number);
  const std::vector<std::string> names = split(visible, ',');
  return number < static_cast<int64_t>(names.size()) ? trim(names[number]) : "";
}

// The few functions of NVML that are used, loaded at run time. Its handles and codes are opaque here.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    const auto init = entry<int (*)()>("nvmlInit_v2");
    works_ = init && init() == kSuccess;
  }
  ~Nvml() {
    const auto shutdown = entry<int (*)()>("nvmlShutdown");
    if (works_ && shutdown) shutdown();
    if (library_) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  int64_t processes(const std::string& name) const {
    const auto count = entry<int (*)(void*, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses_v3");
    void* device = works_ ? find(name) : nullptr;
    if (!device || !count) return 0;
    unsigned processes = 0;  // with room for none the call returns their number
    const int code = count(device, &processes, nullptr);
    return code == kSuccess || code == kTooSmall ? processes : 0;
  }

  int64_t largest_bytes() const {
    struct Memory {
      unsigned long long total, free, used;
    };
    const auto count = entry<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
    const auto tell = entry<int (*)(void*, Memory*)>("nvmlDeviceGetMemoryInfo");
    unsigned devices = 0;
    if (!works_ || !tell || !count || count(&devices) != kSuccess) return 0;
    int64_t most = 0;
    for (unsigned i = 0; i < devices; ++i) {
      Memory memory{};
      void* device = find(std::to_string(i));
      if (device && tell(device, &memory) == kSuccess) most = std::max(most, static_cast<int64_t>(memory.total));
    }
    return most;
  }

 private:
  static constexpr int kSuccess = 0, kTooSmall = 7;

  template <typename Function>
  Function entry(const char* name) const {
    return library_ ? reinterpret_cast<Function>(dlsym(library_, name)) : nullptr;
  }

  void* find(const std::string& name) const {
    void* device = nullptr;
    if (name.empty()) return nullptr;
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      const auto by_uuid = entry<int (*)(const char*, void**)>("nvmlDeviceGetHandleByUUID");
      return by_uuid && by_uuid(name.c_str(), &device) == kSuccess ? device : nullptr;
    }
    const auto by_index = entry<int (*)(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
    const auto index = static_cast<unsigned>(std::atoi(name.c_str()));
    return by_index && by_index(index, &device) == kSuccess ? device : nullptr;
  }

  void* library_;
  bool works_ = false;
};

}  // namespace

double load_average() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : 0;
}

int usable_cores() {
  const cpu_set_t set = usable_set();
  return std::max(1, CPU_COUNT(&set));
}

CpuLoadMonitor::CpuLoadMonitor()
    : busy_s_(busy_seconds()), own_s_(own_seconds()), start_(std::chrono::steady_clock::now()) {}

double CpuLoadMonitor::other_cores() const {
  const std::optional<double> now = busy_seconds();
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (!now || !busy_s_ || wall_s <= 0) return 0;
  return std::max(0.0, (*now - *busy_s_ - (own_seconds() - own_s_)) / wall_s);
}

int64_t largest_gpu_bytes() { return Nvml().largest_bytes(); }

int64_t gpu_processes(const std::string& device) {
  if (!device.starts_with("cuda")) return 0;
  return Nvml().processes(nvml_name(device));
}

}  // namespace memtune::sweep
