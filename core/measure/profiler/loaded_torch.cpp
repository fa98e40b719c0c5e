#include "core/measure/profiler/loaded_torch.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <cstdint>

#include "core/base/error.h"
#include "core/base/torch_version.h"

namespace memtune::profiler {
namespace {

// The highest three bytes of an ABI version.
std::string release_of(uint64_t abi_version) {
  const auto byte = [&](int shift) { return std::to_string(abi_version >> shift & 0xff); };
  return byte(56) + "." + byte(48) + "." + byte(40);
}

}  // namespace

std::string loaded_torch() { return release_of(aoti_torch_abi_version()); }

void check_loaded_torch() {
  const std::string built = torch_minor(release_of(TORCH_ABI_VERSION)), loaded = torch_minor(loaded_torch());
  if (loaded == built) return;
  throw UsageError("memtune-trial is built for PyTorch " + built + ", the LibTorch here is " + loaded +
                   ": unset LD_LIBRARY_PATH, or build memtune again with MEMTUNE_TORCH_VERSION=" + loaded);
}

}  // namespace memtune::profiler
