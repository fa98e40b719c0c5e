#include "core/measure/profiler/machine_probe.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/device/torch/torch_device.h"
#include "core/base/median.h"
#include "core/measure/profiler/device_activity_profiler.h"
#include "core/record/trace/run_provenance.h"

namespace memtune::profiler {
namespace {

using device::Device;
using device::StreamKind;
using plan::MachineProfile;

// Matrices double in size until a product takes `enough_ms`.
struct Sizes {
  int64_t first_rows, most_rows;
  double enough_ms;
  int64_t copied_bytes;
};
constexpr Sizes kCudaSizes{1024, 16384, 8, int64_t{1} << 30};
constexpr Sizes kCpuSizes{128, 2048, 40, int64_t{128} << 20};
constexpr double kSecondsEach = 1.5;  // for one rate: the clock frequency settles under load
constexpr size_t kFewest = 5;         // samples
constexpr size_t kDate = 10;          // characters of a time: 2026-11-22

struct Dtype {
  const char* name;
  at::ScalarType type;
};
constexpr Dtype kDtypes[] = {
    {"float32", at::kFloat}, {"tf32", at::kFloat}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}};

// While it exists, float32 products may be rounded to TF32.
class RoundedFloat32 {
 public:
  explicit RoundedFloat32(bool rounded) { at::globalContext().setFloat32MatmulPrecision(rounded ? "high" : "highest"); }
  ~RoundedFloat32() { at::globalContext().setFloat32MatmulPrecision("highest"); }
  RoundedFloat32(const RoundedFloat32&) = delete;
  RoundedFloat32& operator=(const RoundedFloat32&) = delete;
};

template <class Run>
double ms_of(Device& device, const Run& run) {
  const device::EventPtr start = device.record_timed(StreamKind::compute);
  run();
  const device::EventPtr end = device.record_timed(StreamKind::compute);
  end->synchronize();
  return end->ms_since(*start);
}

// Median of all runs in kSecondsEach.
template <class Run>
double usual_ms(Device& device, const Run& run) {
  using Clock = std::chrono::steady_clock;
  const auto stop = Clock::now() + std::chrono::duration<double>(kSecondsEach);
  std::vector<double> samples;
  while (samples.size() < kFewest || Clock::now() < stop) samples.push_back(ms_of(device, run));
  return median(std::move(samples));
}

struct Products {
  double tflops = 0;
  int64_t rows = 0;
};

Products multiply(Device& device, const Sizes& sizes, at::ScalarType type) {
  const auto options = at::TensorOptions().device(device::torch_device(device)).dtype(type);
  for (int64_t rows = sizes.first_rows;; rows *= 2) {
    // Random values, because zeros take less power and so run faster.
    const at::Tensor a = at::randn({rows, rows}, options), b = at::randn({rows, rows}, options);
    at::Tensor product = at::empty({rows, rows}, options);
    const auto run = [&] { at::mm_out(product, a, b); };
    ms_of(device, run);  // loads libraries and selects kernels
    if (rows < sizes.most_rows && ms_of(device, run) < sizes.enough_ms) continue;
    const auto edge = static_cast<double>(rows);
    return {2 * edge * edge * edge / usual_ms(device, run) / 1e9, rows};
  }
}

double copy_gb_per_s(Device& device, const Sizes& sizes) {
  const auto options = at::TensorOptions().device(device::torch_device(device)).dtype(at::kByte);
  const at::Tensor from = at::zeros({sizes.copied_bytes}, options);
  at::Tensor to = at::zeros({sizes.copied_bytes}, options);
  return 2 * static_cast<double>(sizes.copied_bytes) / usual_ms(device, [&] { to.copy_(from); }) / 1e6;
}

}  // namespace

MachineProfile probe_machine(Device& device, const std::function<void(const std::string&)>& progress) {
  const at::NoGradGuard no_grad;
  const Sizes& sizes = device.emulated() ? kCpuSizes : kCudaSizes;
  const std::string measured = "measured by memtune doctor --probe on " + trace::utc_now().substr(0, kDate) + ": ";
  MachineProfile machine;
  machine.name = device.name();
  machine.description = device.emulated() ? "a CPU that emulates a GPU" : "";
  machine.devices = {device.name()};
  machine.basis = MachineProfile::Basis::measured;
  machine.emulated = device.emulated();
  machine.memory_bytes = device.total_bytes();
  machine.host_memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  machine.sources["memory_bytes"] = "reported by the device";
  machine.sources["host_memory_bytes"] = "reported by the system";
  int64_t rows = 0;
  for (const auto& [name, type] : kDtypes) {
    const bool rounded = std::string_view(name) == "tf32";
    if (rounded && device.emulated()) continue;
    progress(std::string("measuring products of ") + name);
    const RoundedFloat32 scope(rounded);
    try {
      const Products products = multiply(device, sizes, type);
      machine.tflops[name] = products.tflops;
      rows = std::max(rows, products.rows);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      progress(std::string("left out: products of ") + name + ", which this device does not support");
    }
  }
  machine.sources["tflops"] = measured + "products of square matrices of up to " + std::to_string(rows) + " rows";
  device.empty_cache();
  progress("measuring copies within the device");
  machine.memory_gb_per_s = copy_gb_per_s(device, sizes);
  machine.sources["memory_gb_per_s"] =
      measured + "copies of " + format_bytes(sizes.copied_bytes) + ", what is read and what is written";
  device.empty_cache();
  progress("measuring copies over PCIe");
  const LinkBandwidth link = probe_link(device);
  machine.link_out_gb_per_s = link.out_gb_per_s;
  machine.link_in_gb_per_s = link.in_gb_per_s;
  machine.sources["link"] = measured + (device.emulated() ? "copies by the processor" : "page-locked copies, one way");
  return machine;
}

}  // namespace memtune::profiler
