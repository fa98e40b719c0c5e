#include "core/measure/trial/loaded_torch.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace memtune::trial {
namespace {

constexpr int kMinorShift = 48;  // major and minor are the two highest bytes of an ABI version

std::string torch_minor_of(uint64_t abi_version) {
  return std::to_string(abi_version >> 56) + "." + std::to_string(abi_version >> kMinorShift & 0xff);
}

}  // namespace

void check_loaded_torch() {
  const uint64_t loaded = aoti_torch_abi_version();
  if (loaded >> kMinorShift == TORCH_ABI_VERSION >> kMinorShift) return;
  throw UsageError("memtune-trial is built for PyTorch " + torch_minor_of(TORCH_ABI_VERSION) +
                   ", the LibTorch here is " + torch_minor_of(loaded) + ": build it again with MEMTUNE_TORCH_VERSION=" +
                   torch_minor_of(loaded) + ", or unset LD_LIBRARY_PATH");
}

}  // namespace memtune::trial
