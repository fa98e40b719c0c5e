#include "core/offload/offload.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace memtune::offload {

using device::Direction;
using device::Stream;

Offload::Offload(device::Device& device, const config::TransferSettings& settings, int64_t slab_bytes)
    : device_(device), settings_(settings), pool_(device, slab_bytes) {}

// Slabs may go when nothing reads or writes them any more.
Offload::~Offload() { device_.synchronize(); }

Transfer::~Transfer() { offload_.forget(*this); }

void Offload::begin_step() {
  last_step_bytes_ = counters_.out_bytes;
  ceiling_ = 0;
  order_.clear();
  counters_ = {};
}

void Offload::send(const autograd::BufferPtr& buffer) {
  at::Storage source = buffer->alive();
  if (buffer->bytes < settings_.min_bytes || buffer->bytes == 0) {
    buffer->resident = source;
    return;
  }
  auto transfer = std::make_shared<Transfer>(*this, buffer->bytes);
  transfer->lease_ = pool_.take(buffer->bytes);
  Stream stream = settings_.side_stream ? Stream::out : Stream::compute;
  if (settings_.side_stream) device_.wait(stream, device_.record(Stream::compute));
  for (const auto& event : transfer->lease_.free_after) device_.wait(stream, event);
  device_.copy(transfer->lease_.data, source.data(), buffer->bytes, Direction::to_host, stream);
  transfer->out_done_ = device_.record(stream);
  transfer->source_ = std::move(source);
  counters_.out_bytes += buffer->bytes;
  stash_bytes_ += buffer->bytes;
  largest_bytes_ = std::max(largest_bytes_, buffer->bytes);
  stash_.push_back(transfer);
  order_.push_back(transfer);
  buffer->transfer = std::move(transfer);
  // On the compute stream itself the copy is done before anything can take the memory.
  retire(stash_limit());
}

// A stash that holds most of what is moved saves nothing: an eighth of a step's bytes evens out a burst.
int64_t Offload::stash_limit() const {
  if (!settings_.side_stream) return 0;
  if (last_step_bytes_ == 0) return settings_.stash_bytes;
  return std::min(settings_.stash_bytes, std::max(last_step_bytes_ / 8, 2 * largest_bytes_));
}

// Copies that have ended give their memory back for nothing; beyond the limit compute waits for the oldest.
void Offload::retire(int64_t limit) {
  while (!stash_.empty()) {
    auto transfer = stash_.front().lock();
    bool stashed = transfer && transfer->state_ == Transfer::State::stashed;
    if (stashed && stash_bytes_ <= limit && !transfer->out_done_->done()) return;
    stash_.pop_front();
    if (stashed) unstash(*transfer);
  }
}

void Offload::unstash(Transfer& transfer) {
  device_.wait(Stream::compute, transfer.out_done_);
  transfer.source_ = at::Storage();
  transfer.state_ = Transfer::State::on_host;
  stash_bytes_ -= transfer.bytes_;
}

void Offload::flush() { retire(-1); }

void Offload::before_overwrite(const autograd::Buffer& buffer) {
  if (buffer.transfer && buffer.transfer->state_ == Transfer::State::stashed) unstash(*buffer.transfer);
}

void Offload::start_back(Transfer& transfer) {
  at::Tensor target = at::empty({transfer.bytes_}, at::TensorOptions(device_.torch_device()).dtype(at::kByte));
  Stream stream = settings_.side_stream ? Stream::in : Stream::compute;
  if (settings_.side_stream) {
    // The memory may have been freed by work that compute has not reached yet.
    device_.wait(stream, device_.record(Stream::compute));
    device_.wait(stream, transfer.out_done_);
  }
  device_.copy(target.mutable_data_ptr(), transfer.lease_.data, transfer.bytes_, Direction::to_device, stream);
  transfer.in_done_ = device_.record(stream);
  transfer.target_ = target.storage();
  transfer.state_ = Transfer::State::coming_back;
  counters_.in_bytes += transfer.bytes_;
  ahead_bytes_ += transfer.bytes_;
}

void Offload::bring_back(autograd::Buffer& buffer) {
  Transfer& transfer = *buffer.transfer;
  if (transfer.state_ == Transfer::State::stashed) {
    buffer.resident = transfer.source_;  // never left; the stash owns it too, as long as the copy out runs
    return;
  }
  if (transfer.state_ == Transfer::State::on_host) start_back(transfer);
  if (transfer.state_ == Transfer::State::coming_back) {
    device_.wait(Stream::compute, transfer.in_done_);
    ahead_bytes_ -= transfer.bytes_;
    buffer.resident = std::move(transfer.target_);
    transfer.state_ = Transfer::State::returned;
  }
}

void Offload::prefetch() {
  if (settings_.prefetch_bytes == 0 || order_.empty()) return;
  while (!order_.empty()) {
    auto transfer = order_.back().lock();
    if (transfer && transfer->state_ == Transfer::State::on_host) {
      device::MemoryUse memory = device_.memory();
      if (ceiling_ == 0) ceiling_ = memory.peak_allocated;
      bool room = ahead_bytes_ == 0 || ahead_bytes_ + transfer->bytes_ <= settings_.prefetch_bytes;
      if (!room || memory.allocated + transfer->bytes_ > ceiling_) return;
      start_back(*transfer);
    }
    order_.pop_back();
  }
}

// Whatever the state, nothing may touch freed memory: compute, which reuses it, waits for copies in flight.
void Offload::forget(Transfer& transfer) {
  using State = Transfer::State;
  if (!transfer.lease_.data) return;
  device::EventPtr last_use = transfer.in_done_ ? transfer.in_done_ : transfer.out_done_;
  if (transfer.state_ == State::stashed) unstash(transfer);
  if (transfer.state_ == State::coming_back) {
    device_.wait(Stream::compute, transfer.in_done_);
    ahead_bytes_ -= transfer.bytes_;
  }
  pool_.give_back(transfer.lease_, last_use);
}

}  // namespace memtune::offload
