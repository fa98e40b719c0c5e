// The CUDA device behind the interface of all engines: copies arrive, events order streams, memory is counted and
// capped.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "core/base/device/device.h"
#include "core/base/device/torch/make_device.h"
#include "core/base/device/torch/torch_device.h"
#include "core/base/error.h"

using namespace memtune;
using namespace memtune::device;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

at::Tensor on_device(const Device& device, int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(torch_device(device)));
}

}  // namespace

TEST_CASE("bytes are copied to pinned memory and back") {
  const auto device = make_device("cuda");
  const int64_t bytes = 8 * kMiB + 3;
  const auto slab = device->allocate_host(bytes);
  CHECK(reinterpret_cast<uintptr_t>(slab->data()) % 4096 == 0);
  const auto from = at::randint(256, {bytes}, at::TensorOptions(at::kByte).device(torch_device(*device)));
  auto to = on_device(*device, bytes).zero_();
  device->wait(StreamKind::out, device->record(StreamKind::compute));
  device->copy(slab->data(), from.data_ptr(), bytes, CopyDirection::to_host, StreamKind::out);
  device->wait(StreamKind::in, device->record(StreamKind::out));
  device->wait(StreamKind::in, device->record(StreamKind::compute));
  device->copy(to.data_ptr(), slab->data(), bytes, CopyDirection::to_device, StreamKind::in);
  device->wait(StreamKind::compute, device->record(StreamKind::in));
  CHECK(at::equal(from, to));
  CHECK(std::memcmp(slab->data(), from.cpu().data_ptr(), static_cast<size_t>(bytes)) == 0);
}

TEST_CASE("a batch of copies arrives in stream order even with empty copies in it") {
  const auto device = make_device("cuda");
  constexpr int kCopies = 40;
  const int64_t bytes = kMiB + 5, stride = 2 * kMiB;
  const auto slab = device->allocate_host(kCopies * stride);
  auto from = on_device(*device, kCopies * bytes), to = on_device(*device, kCopies * bytes).zero_();
  const auto piece = [&](const at::Tensor& tensor, int i) { return static_cast<char*>(tensor.data_ptr()) + i * bytes; };
  std::vector<Device::Copy> out, in;
  for (int i = 0; i < kCopies; ++i) {
    const int64_t length = i % 7 == 0 ? 0 : bytes;
    out.push_back({slab->data() + i * stride, piece(from, i), length});
    in.push_back({piece(to, i), slab->data() + i * stride, length});
  }
  for (int round = 1; round <= 3; ++round) {
    from.fill_(round);
    device->wait(StreamKind::out, device->record(StreamKind::compute));
    device->copy_batch(out, CopyDirection::to_host, StreamKind::out);
    device->wait(StreamKind::in, device->record(StreamKind::out));
    device->copy_batch(in, CopyDirection::to_device, StreamKind::in);
    device->wait(StreamKind::compute, device->record(StreamKind::in));
    for (int i = 0; i < kCopies; ++i) {
      CAPTURE(i);
      CHECK(at::equal(to.narrow(0, i * bytes, bytes), from.narrow(0, i * bytes, bytes).mul(i % 7 == 0 ? 0 : 1)));
    }
    device->wait(StreamKind::out, device->record(StreamKind::in));
  }
}

TEST_CASE("pinned slabs are page-aligned even if small or empty") {
  const auto device = make_device("cuda");
  for (const int64_t bytes : {0, 1, 600, 5000}) {
    const auto first = device->allocate_host(bytes), second = device->allocate_host(bytes);
    CHECK(first->bytes() == bytes);
    CHECK(reinterpret_cast<uintptr_t>(first->data()) % 4096 == 0);
    CHECK(reinterpret_cast<uintptr_t>(second->data()) % 4096 == 0);
  }
}

TEST_CASE("a copy waits for the kernels before its event") {
  const auto device = make_device("cuda");
  const int64_t bytes = 256 * kMiB;
  const auto slab = device->allocate_host(bytes);
  auto tensor = on_device(*device, bytes);
  for (int round = 1; round <= 5; ++round) {
    for (int i = 0; i < 20; ++i) tensor.fill_(100 + i);  // keeps the device busy
    tensor.fill_(round);
    device->wait(StreamKind::out, device->record(StreamKind::compute));
    device->copy(slab->data(), tensor.data_ptr(), bytes, CopyDirection::to_host, StreamKind::out);
    const auto copied = device->record(StreamKind::out);
    CHECK_FALSE(copied->done());
    copied->synchronize();
    CHECK(copied->done());
    CHECK(slab->data()[0] == round);
    CHECK(slab->data()[bytes - 1] == round);
  }
}

TEST_CASE("the compute stream is the current CUDA stream of the thread") {
  const auto device = make_device("cuda");
  const int64_t bytes = 256 * kMiB;
  const auto slab = device->allocate_host(bytes);
  auto tensor = on_device(*device, bytes);
  const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
  const c10::Stream before = cuda.exchangeStream(cuda.getStreamFromGlobalPool(torch_device(*device)));
  for (int round = 1; round <= 5; ++round) {
    for (int i = 0; i < 20; ++i) tensor.fill_(100 + i);
    tensor.fill_(round);
    device->wait(StreamKind::out, device->record(StreamKind::compute));
    device->copy(slab->data(), tensor.data_ptr(), bytes, CopyDirection::to_host, StreamKind::out);
    device->record(StreamKind::out)->synchronize();
    CHECK(slab->data()[bytes - 1] == round);
    // In the other direction, compute waits for the copy.
    std::memset(slab->data(), 50 + round, static_cast<size_t>(bytes));
    device->wait(StreamKind::in, device->record(StreamKind::compute));
    device->copy(tensor.data_ptr(), slab->data(), bytes, CopyDirection::to_device, StreamKind::in);
    device->wait(StreamKind::compute, device->record(StreamKind::in));
    CHECK(tensor[bytes - 1].item<int>() == 50 + round);
  }
  cuda.exchangeStream(before);
}

TEST_CASE("many kept and dropped events are independent") {
  const auto device = make_device("cuda");
  auto tensor = on_device(*device, 64 * kMiB);
  std::vector<EventPtr> kept;
  for (int i = 0; i < 200; ++i) {
    tensor.fill_(i);
    const auto event = device->record(StreamKind::compute);
    if (i % 3 == 0) kept.push_back(event);
  }
  device->synchronize();
  for (const auto& event : kept) CHECK(event->done());
}

TEST_CASE("memory statistics follow tensors and include the whole device") {
  const auto device = make_device("cuda");
  device->empty_cache();
  device->reset_peak();
  const AllocatorStats before = device->memory();
  {
    const auto tensor = on_device(*device, 64 * kMiB);
    CHECK(device->memory().allocated - before.allocated == 64 * kMiB);
  }
  const AllocatorStats after = device->memory();
  CHECK(after.allocated == before.allocated);
  CHECK(after.peak_allocated - before.allocated == 64 * kMiB);
  CHECK(after.peak_reserved >= 64 * kMiB);
  CHECK(device->used_bytes() > 0);
  CHECK(device->used_bytes() < device->total_bytes());
  device->empty_cache();
  CHECK(device->memory().reserved < after.reserved);
}

TEST_CASE("allocations beyond the cap throw out of memory and work again without the cap") {
  const auto device = make_device("cuda");
  device->empty_cache();
  device->set_cap(256 * kMiB);
  CHECK_THROWS_AS(on_device(*device, 512 * kMiB), c10::OutOfMemoryError);
  CHECK(on_device(*device, 64 * kMiB).numel() == 64 * kMiB);
  device->set_cap(0);
  CHECK(on_device(*device, 512 * kMiB).numel() == 512 * kMiB);
  device->empty_cache();
}

TEST_CASE("too large a pinned allocation is a device error and leaves no CUDA error behind") {
  const auto device = make_device("cuda");
  CHECK_THROWS_WITH_AS(device->allocate_host(int64_t{1} << 50), doctest::Contains("1 PiB"), DeviceError);
  CHECK((at::ones({4}, at::TensorOptions(torch_device(*device))) + 1).sum().item<float>() == 8);
}

TEST_CASE("the CUDA device has a name and a nonexistent device is rejected") {
  const auto device = make_device("cuda:0");
  CHECK_FALSE(device->emulated());
  CHECK_FALSE(device->name().empty());
  CHECK(torch_device(*device) == c10::Device(c10::kCUDA, 0));
  CHECK_THROWS_AS(make_device("cuda:63"), UsageError);  // not the device of this process
}
