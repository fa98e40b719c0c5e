#include "core/measure/profiler/link_load_generator.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/base/device/torch/torch_device.h"

namespace memtune::profiler {
namespace {

using device::CopyDirection;
using device::StreamKind;

// Large, so that the copies are few enough for the driver to accept all at once.
constexpr int64_t kCopyBytes = int64_t{32} << 20;

double ms_of(int copies, double gb_per_s) { return copies * static_cast<double>(kCopyBytes) / (gb_per_s * 1e6); }

int copies_in(double ms, double gb_per_s) { return std::max(1, static_cast<int>(ms / ms_of(1, gb_per_s))); }

}  // namespace

LinkLoadGenerator::LinkLoadGenerator(device::Device& device, const LinkBandwidth& link, double ms)
    : device_(device),
      host_(device.allocate_host(kCopyBytes)),
      memory_(at::empty({kCopyBytes}, at::device(device::torch_device(device)).dtype(at::kByte))),
      out_(copies_in(ms / 3, link.out_gb_per_s)),
      in_(copies_in(2 * ms / 3, link.in_gb_per_s)),
      ms_(ms_of(out_, link.out_gb_per_s) + ms_of(in_, link.in_gb_per_s)) {}

void LinkLoadGenerator::start() {
  enqueue(out_, CopyDirection::to_host, StreamKind::out);
  device_.wait(StreamKind::in, device_.record(StreamKind::out));
  enqueue(in_, CopyDirection::to_device, StreamKind::in);
}

void LinkLoadGenerator::enqueue(int copies, CopyDirection direction, StreamKind stream) {
  void* const host = host_->data();
  void* const memory = memory_.data_ptr();
  for (int i = 0; i < copies; ++i) {
    const bool out = direction == CopyDirection::to_host;
    device_.copy(out ? host : memory, out ? memory : host, kCopyBytes, direction, stream);
  }
}

}  // namespace memtune::profiler
