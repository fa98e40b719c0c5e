// Properties that hold for every GPU with TF32. The probe must also leave nothing behind.
#include "core/measure/profiler/machine_probe.h"

#include <ATen/Context.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/device/torch/make_device.h"

namespace memtune::tests {
namespace {

TEST_CASE("the measured GPU has faster narrow products than float32 and faster memory than PCIe") {
  const auto device = device::make_device("cuda");
  const int64_t before = device->memory().allocated;
  std::vector<std::string> lines;
  const auto machine = profiler::probe_machine(*device, [&](const std::string& line) { lines.push_back(line); });
  CHECK(machine.basis == plan::MachineProfile::Basis::measured);
  CHECK_FALSE(machine.emulated);
  CHECK(machine.devices == std::vector<std::string>{device->name()});
  CHECK(machine.memory_bytes == device->total_bytes());
  CHECK(machine.tflops.at("float16") > 2 * machine.tflops.at("float32"));
  CHECK(machine.tflops.at("tf32") > machine.tflops.at("float32"));
  CHECK(machine.memory_gb_per_s > machine.link_out_gb_per_s);
  CHECK(machine.link_in_gb_per_s > 1);
  CHECK(lines.size() == 6);
  CHECK(device->memory().allocated == before);
  CHECK(at::globalContext().float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST);
}

}  // namespace
}  // namespace memtune::tests
