#include "core/engine/shard/host_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace memtune::shard {

using device::Direction;
using device::Stream;

HostRows::~HostRows() { stop(); }

void HostRows::stop() noexcept {
  device_.synchronize_quietly();
  source_.reset();
  taken_ = nullptr;
}

at::Tensor HostRows::make(int64_t numbers, at::ScalarType dtype) {
  const int64_t bytes = std::max<int64_t>(numbers * static_cast<int64_t>(c10::elementSize(dtype)), 1);
  std::shared_ptr<device::HostSlab> slab = device_.allocate_host(bytes);
  bytes_ += bytes;
  std::memset(slab->data(), 0, static_cast<size_t>(bytes));
  return at::from_blob(
      slab->data(), {numbers}, [slab](void* /*data*/) {}, at::TensorOptions(dtype));
}

HostRows::Brought HostRows::bring(const at::Tensor& on_host, c10::Device place) {
  Brought brought{at::empty(on_host.sizes(), on_host.options().device(place)), nullptr};
  device_.wait(Stream::in, device_.record(Stream::compute));  // earlier work on that memory may still run
  device_.copy(brought.row.data_ptr(), on_host.const_data_ptr(), static_cast<int64_t>(on_host.nbytes()),
               Direction::to_device, Stream::in);
  brought.there = device_.record(Stream::in);
  return brought;
}

void HostRows::take(at::Tensor from, const at::Tensor& to) {
  drop_source();
  device_.wait(Stream::out, device_.record(Stream::compute));
  device_.copy(to.data_ptr(), from.const_data_ptr(), static_cast<int64_t>(from.nbytes()), Direction::to_host,
               Stream::out);
  taken_ = device_.record(Stream::out);
  source_ = std::move(from);
}

void HostRows::settle() {
  if (taken_) taken_->synchronize();
  drop_source();
}

void HostRows::drop_source() {
  if (taken_) device_.wait(Stream::compute, taken_);
  taken_ = nullptr;
  source_.reset();
}

}  // namespace memtune::shard
