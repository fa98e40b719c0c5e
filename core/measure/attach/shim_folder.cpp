#include "core/measure/attach/shim_folder.h"

#include <cstdlib>

#include "core/base/allocator_settings.h"
#include "core/base/error.h"
#include "core/base/file.h"

extern char** environ;

namespace memtune::attach {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTracer = "libmemtune_injection.so";

// Next to this program, or in libexec/memtune of the installation prefix; "": not found.
std::string tracer_path() {
  const fs::path folder = executable_path().parent_path();
  for (const fs::path& path : {folder / kTracer, folder / "../libexec/memtune" / kTracer})
    if (fs::exists(path)) return path.lexically_normal().string();
  return "";
}

std::string text_of(const StepCounts& steps) {
  return std::to_string(steps.warmup) + "+" + std::to_string(steps.measured) + "+" + std::to_string(steps.traced);
}

}  // namespace

ShimFolder::ShimFolder() {
  if (path().string().find(':') != std::string::npos)
    throw UsageError("TMPDIR: PYTHONPATH, by which Python finds memtune's measuring, names no folder with a colon: " +
                     path().parent_path().string());
  make_folders(path() / "shim");
  make_folders(records());
  for (const ShimFile& file : shim_files()) write_file(path() / "shim" / file.name, file.text);
}

std::vector<std::string> ShimFolder::environment(const StepCounts& steps, int64_t memory_cap_bytes,
                                                 const fs::path& plan, const std::string& allocator, bool shown) const {
  std::vector<std::string> variables;
  const std::string allocator_variable = allocator.empty() ? "" : allocator_environment(allocator);
  const std::string allocator_is = allocator_variable.substr(0, allocator_variable.find('=') + 1);
  std::string python_path = (path() / "shim").string();
  const std::string tracer = tracer_path();
  bool injects = false;
  const bool of_wheel = std::getenv("MEMTUNE_ENGINE") != nullptr;  // set with MEMTUNE_TRIAL for this memtune alone
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (text.starts_with("MEMTUNE_ATTACH") || text.starts_with("MEMTUNE_NO_ENGINE=")) continue;
    if (of_wheel && (text.starts_with("MEMTUNE_ENGINE=") || text.starts_with("MEMTUNE_TRIAL="))) continue;
    injects |= text.starts_with("CUDA_INJECTION64_PATH=");
    if (text.starts_with("PYTHONPATH="))
      python_path += text.size() > 11 ? ":" + text.substr(11) : "";
    else if (allocator_is.empty() || !text.starts_with(allocator_is))
      variables.push_back(text);
  }
  variables.push_back("PYTHONPATH=" + python_path);
  if (!allocator_variable.empty()) variables.push_back(allocator_variable);
  variables.push_back("MEMTUNE_ATTACH=" + records().string());
  variables.push_back("MEMTUNE_ATTACH_STEPS=" + text_of(steps));
  variables.push_back("MEMTUNE_ATTACH_CUPTI=" + tracer);
  variables.push_back("MEMTUNE_ATTACH_CAP=" + std::to_string(memory_cap_bytes));
  variables.push_back("MEMTUNE_ATTACH_PLAN=" + plan.string());
  if (shown) variables.push_back("MEMTUNE_ATTACH_SHOW=1");
  // CUPTI has to be loaded before the first context. Another tool's injection is kept.
  if (!tracer.empty() && !injects) variables.push_back("CUDA_INJECTION64_PATH=" + tracer);
  return variables;
}

}  // namespace memtune::attach
