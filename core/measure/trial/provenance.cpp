#include "core/measure/trial/provenance.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/text.h"
#include "core/measure/profiler/doctor.h"
#include "core/measure/profiler/loaded_torch.h"

namespace memtune::trial {
namespace {

// "AMD EPYC 9654 96-Core Processor, 192 cores"
std::string machine() {
  const std::string cores = std::to_string(std::thread::hardware_concurrency()) + " cores";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos)
      return trim(line.substr(colon + 1)) + ", " + cores;
  }
  return cores;
}

std::string model(const plan::ModelAndInputSource& source) {
  return source.path.empty() ? "a built-in profile" : std::filesystem::path(source.path).filename().string();
}

}  // namespace

trace::RunProvenance find_provenance(const plan::ModelAndInputSource& source, const std::string& command) {
  return {trace::utc_now(),           command,  model(source), MEMTUNE_VERSION, profiler::loaded_torch(),
          profiler::driver_release(), machine()};
}

}  // namespace memtune::trial
