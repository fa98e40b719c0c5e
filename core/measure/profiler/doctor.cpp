#include "core/measure/profiler/doctor.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/bytes.h"
#include "core/base/device/cuda_kernels.h"
#include "core/base/device/cuda_module.h"
#include "core/base/device/torch/make_device.h"
#include "core/base/device/torch/torch_device.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/scoped_timer.h"
#include "core/base/torch_version.h"
#include "core/measure/profiler/device_activity_profiler.h"
#include "core/measure/profiler/loaded_torch.h"

namespace memtune::profiler {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kCudaVersion = 13000;    // of LibTorch's build
constexpr double kSlowLinkGbPerS = 8;  // a PCIe 3 slot with 8 lanes
constexpr double kOwnLinkShare = 0.9;  // a link that keeps this share of its rate while others copy is not shared
constexpr int64_t kLittleTempBytes = 10240 * kMiB;

// Consequence of a lack of CUDA. `lack` is fail if a CUDA device was requested.
std::string without_cuda(DoctorStatus lack) {
  if (lack == DoctorStatus::fail) return "; trials on CUDA cannot run";
  return "; trials run on the CPU device, an emulation: peaks and gradients hold for it, times say nothing about a GPU";
}

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// CUDA version of the driver's library (13000: CUDA 13.0); 0 without one.
int driver_cuda_version() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return 0;
  using GetVersion = int (*)(int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  return get_version != nullptr && get_version(&version) == 0 ? version : 0;
}

DoctorCheck check_driver(DoctorStatus lack) {
  const int version = driver_cuda_version();
  const std::string release = driver_release();
  if (version == 0) {
    return {"NVIDIA driver", lack, std::string("there is none") + without_cuda(lack), "install a driver, 580 or newer"};
  }
  const std::string found = (release.empty() ? "" : release + ", ") + "for CUDA " + std::to_string(version / 1000) +
                            "." + std::to_string(version % 1000 / 10);
  if (version >= kCudaVersion) return {"NVIDIA driver", DoctorStatus::ok, found, ""};
  return {"NVIDIA driver", lack, found + ": too old for LibTorch's CUDA 13" + without_cuda(lack),
          "install 580 or newer"};
}

DoctorCheck check_module(DoctorStatus lack) {
  const auto path = device::cuda_module_path();
  if (std::filesystem::exists(path)) return {"CUDA module", DoctorStatus::ok, path.string(), ""};
  return {"CUDA module", lack, path.string() + " does not exist" + without_cuda(lack), "build with -DMEMTUNE_CUDA=ON"};
}

DoctorCheck check_device(const device::Device& device) {
  const std::string total = format_bytes(device.total_bytes());
  if (device.emulated())
    return {"device", DoctorStatus::ok, device.name() + ", " + total + " of memory, emulating a device", ""};
  const int64_t used = device.used_bytes();
  const DoctorCheck check{"device", DoctorStatus::ok,
                          device.name() + ", " + format_bytes(device.total_bytes() - used) + " of " + total + " free",
                          ""};
  if (used * 10 < device.total_bytes()) return check;
  return {"device", DoctorStatus::warn, check.detail + ": something else uses it, times will be noisy",
          "stop other processes"};
}

DoctorCheck check_kernels() {
  if (device::cuda_kernels())
    return {"kernels", DoctorStatus::ok, "of NF4 weights, AdamW in 8 bits and log probabilities", ""};
  return {"kernels", DoctorStatus::warn,
          "none in the CUDA module: LibTorch's operators do their work, slower and in more memory",
          "build again where nvcc of CUDA 13 is in PATH"};
}

bool has_copy(const trace::Trace& trace, int64_t bytes) {
  for (const auto& event : trace.events) {
    if (event.kind == trace::EventKind::copy_out && event.bytes == bytes) return true;
  }
  return false;
}

constexpr const char* kLinksTogether = "links together";
constexpr const char* kNoOtherProfiler = "run outside other profilers and debuggers";

std::string profiler_name(const device::Device& device) { return device.emulated() ? "profiler" : "CUPTI"; }

// Records one copy and looks for it in the trace.
DoctorCheck check_profiler(device::Device& device) {
  const std::string name = profiler_name(device);
  const auto host = device.allocate_host(kMiB);
  const auto memory = c10::GetAllocator(device::torch_device(device).type())->allocate(kMiB);
  trace::Trace trace;
  const auto profiler = make_profiler(device);
  profiler->start();
  device.copy(host->data(), memory.get(), kMiB, device::CopyDirection::to_host, device::StreamKind::out);
  profiler->finish(trace);
  if (!has_copy(trace, kMiB))
    return {name, DoctorStatus::fail, "it works but misses a copy: no overlap can be measured", kNoOtherProfiler};
  if (std::getenv("KINETO_USE_DAEMON") != nullptr) {
    return {name, DoctorStatus::warn, "KINETO_USE_DAEMON lets LibTorch use CUPTI at the same time",
            "unset KINETO_USE_DAEMON"};
  }
  return {name, DoctorStatus::ok, "a traced copy was found", ""};
}

DoctorCheck check_pinned(device::Device& device, int64_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  device.allocate_host(bytes);
  const double ms = ms_since(start);
  return {"pinned memory", DoctorStatus::ok, format_bytes(bytes) + " in " + decimal(ms) + " ms", ""};
}

DoctorCheck check_link(device::Device& device) {
  const LinkBandwidth link = probe_link(device);
  const std::string rates = decimal(link.out_gb_per_s) + " GB/s out, " + decimal(link.in_gb_per_s) + " GB/s in";
  if (device.emulated()) return {"link", DoctorStatus::ok, rates + " (memcpy)", ""};
  if (std::min(link.out_gb_per_s, link.in_gb_per_s) >= kSlowLinkGbPerS) return {"link", DoctorStatus::ok, rates, ""};
  return {"link", DoctorStatus::warn, rates + ": offloading will be slow", "check the slot's width (nvidia-smi -q)"};
}

DoctorCheck measure_links_together() {
  const auto made = device::make_all_cuda_devices();
  std::vector<device::Device*> devices;
  std::vector<LinkBandwidth> alone;
  for (const auto& device : made) {
    devices.push_back(device.get());
    alone.push_back(probe_links_together(std::span(devices).last(1)).front());
  }
  return check_links_together(alone, probe_links_together(devices));
}

DoctorCheck check_temp_folder() {
  const char* variable = std::getenv("TMPDIR");
  const std::filesystem::path path = variable && *variable ? variable : "/tmp";
  if (!std::filesystem::is_directory(path)) throw IoError("there is no folder " + path.string());
  std::string probe = path / "memtune-doctor-XXXXXX";
  const FileDescriptor file(::mkstemp(probe.data()));
  if (file.get() < 0) throw system_error("nothing can be written into " + path.string(), errno);
  ::unlink(probe.c_str());
  const auto free = static_cast<int64_t>(std::filesystem::space(path).available);
  const std::string detail = path.string() + " has " + format_bytes(free) + " free";
  if (free >= kLittleTempBytes) return {"temporary folder", DoctorStatus::ok, detail, ""};
  return {"temporary folder", DoctorStatus::warn, detail + ": runs of large models may not fit",
          "free some, or set TMPDIR"};
}

// Runs one check. An exception becomes its result.
template <class Run>
DoctorCheck attempt(const std::string& name, const std::string& fix, Run run,
                    DoctorStatus thrown = DoctorStatus::fail) {
  try {
    return run();
  } catch (const UsageError&) {
    throw;
  } catch (const c10::Error& error) {
    return {name, thrown, error.what_without_backtrace(), fix};
  } catch (const std::exception& error) {
    return {name, thrown, error.what(), fix};
  }
}

}  // namespace

std::string driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.size() > 4 && word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != word.npos) {
      return word;
    }
  }
  return "";
}

std::string to_string(DoctorStatus status) {
  return status == DoctorStatus::ok ? "ok" : status == DoctorStatus::warn ? "warn" : "fail";
}

DoctorCheck check_libtorch(const std::string& version, bool on_cpu) {
  const std::string untested = on_cpu ? "" : untested_on_gpu(version);
  if (untested.empty()) return {"LibTorch", DoctorStatus::ok, version, ""};
  return {"LibTorch", DoctorStatus::warn, version + ", " + untested,
          "for figures that were tested, use PyTorch 2.11; from sources MEMTUNE_TORCH_VERSION=2.11"};
}

DoctorCheck check_links_together(std::span<const LinkBandwidth> alone, std::span<const LinkBandwidth> together) {
  std::string rates;
  bool shared = false;
  for (size_t i = 0; i < alone.size(); ++i) {
    const LinkBandwidth &own = alone[i], &among = together[i];
    shared = shared || among.out_gb_per_s < kOwnLinkShare * own.out_gb_per_s ||
             among.in_gb_per_s < kOwnLinkShare * own.in_gb_per_s;
    rates += (i == 0 ? "cuda:" : "; cuda:") + std::to_string(i) + " " + decimal(among.out_gb_per_s) + " of " +
             decimal(own.out_gb_per_s) + " GB/s out, " + decimal(among.in_gb_per_s) + " of " +
             decimal(own.in_gb_per_s) + " in";
  }
  if (!shared) return {kLinksTogether, DoctorStatus::ok, rates, ""};
  return {kLinksTogether, DoctorStatus::warn, rates + ": ranks that offload at once get that much each",
          "for --ranks, have CUDA_VISIBLE_DEVICES name GPUs that share no switch or socket (nvidia-smi topo -m)"};
}

std::vector<DoctorCheck> run_doctor(const std::string& name) {
  const bool on_cpu = name == "cpu";
  const DoctorStatus lack = on_cpu ? DoctorStatus::warn : DoctorStatus::fail;
  std::vector<DoctorCheck> checks{check_libtorch(loaded_torch(), on_cpu), check_driver(lack), check_module(lack)};
  std::unique_ptr<device::Device> device;
  checks.push_back(attempt("device", on_cpu ? "" : "see above, or use --device cpu", [&] {
    device = device::make_device(name);
    return check_device(*device);
  }));
  if (device) {
    checks.push_back(attempt(profiler_name(*device), kNoOtherProfiler, [&] { return check_profiler(*device); }));
    if (!on_cpu) checks.push_back(attempt("kernels", "", check_kernels));
    for (const int64_t bytes : {64 * kMiB, 1024 * kMiB}) {
      if (on_cpu) break;  // there is nothing to page-lock
      checks.push_back(attempt("pinned memory", "raise the memory and memlock limits of the shell or container",
                               [&] { return check_pinned(*device, bytes); }));
    }
    checks.push_back(attempt("link", "", [&] { return check_link(*device); }));
    if (!on_cpu && device::count_cuda_devices() > 1) {
      checks.push_back(
          attempt(kLinksTogether, "stop what uses the other GPUs", measure_links_together, DoctorStatus::warn));
    }
  }
  checks.push_back(attempt("temporary folder", "set TMPDIR to a folder that can be written into",
                           [] { return check_temp_folder(); }));
  return checks;
}

}  // namespace memtune::profiler
