#include "core/offload/offload.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/device/torch/torch_device.h"

namespace memtune::offload {
namespace {

using config::Schedule;
using State = Transfer::State;
using device::Direction;
using device::Stream;

constexpr int64_t kDiskPiece = 4 << 20;

}  // namespace

Offload::Offload(device::Device& device, const config::TransferSettings& settings, tier::HostTier& tier)
    : device_(device), settings_(settings), tier_(tier), waits_(device) {}

// Host memory may go when nothing reads or writes it any more.
Offload::~Offload() { device_.synchronize(); }

Transfer::~Transfer() { offload_.forget(*this); }

at::Storage Transfer::bring_back() { return offload_.bring_back(*this); }

void Transfer::before_overwrite() { offload_.before_overwrite(*this); }

void Offload::begin_step() {
  ceiling_ = 0;
  group_ = group_wanted_ = 0;
  to_read_ = 0;
  unpack_ = -1;
  early_.assign(peaks_.size(), 0);
  order_.clear();
  gathered_.clear();
  waits_.clear();
  counters_ = {};
  tier_.begin_step();
}

void Offload::send(value::Value& value) {
  at::Storage source = value.alive();
  if (value.size_bytes() < settings_.min_bytes || value.size_bytes() == 0) return value.hold(std::move(source));
  auto transfer = std::make_shared<Transfer>(*this, value, group_, order_.size());
  transfer->to_disk_ = value.place() == config::Place::disk;
  order_.push_back(transfer);
  to_read_ = order_.size();
  largest_bytes_ = std::max(largest_bytes_, value.size_bytes());
  value.send(transfer);
  if (settings_.schedule == Schedule::block) {
    transfer->source_ = std::move(source);
    gathered_.push_back(transfer);
    return;
  }
  start_out(*transfer, std::move(source));
  // On the compute stream itself the copy is done before anything can take the memory.
  retire([this](const Transfer&) { return settings_.side_stream && stash_bytes_ <= stash_limit(); });
}

void Offload::end_block() {
  if (settings_.schedule != Schedule::block) return;
  for (const auto& weak : std::exchange(gathered_, {}))
    if (auto transfer = weak.lock(); transfer && transfer->state_ == State::gathered)
      start_out(*transfer, std::move(transfer->source_));
  ++group_;
  retire([this](const Transfer& transfer) { return transfer.group_ >= group_ - settings_.groups_in_flight; });
}

void Offload::start_out(Transfer& transfer, at::Storage source) {
  const Stream stream = settings_.side_stream ? Stream::out : Stream::compute;
  if (settings_.side_stream) device_.wait(stream, device_.record(Stream::compute));
  const int64_t piece_bytes = transfer.to_disk_ ? kDiskPiece : transfer.bytes_;
  transfer.source_ = std::move(source);
  transfer.state_ = State::stashed;
  stash_bytes_ += transfer.bytes_;
  stash_.push_back(transfer.weak_from_this());
  for (int64_t offset = 0; offset < transfer.bytes_; offset += piece_bytes) {
    const int64_t bytes = std::min(piece_bytes, transfer.bytes_ - offset);
    tier::PiecePtr piece = transfer.pieces_.emplace_back(tier_.put(bytes, transfer.to_disk_));
    for (const auto& event : piece->lease.free_after()) device_.wait(stream, event);
    piece->value = transfer.value_;
    const auto* from = static_cast<const char*>(transfer.source_.data()) + offset;
    const trace::CopiesScope recording(recorder_, transfer.value_);
    device_.copy(piece->lease.data(), from, bytes, Direction::to_host, stream);
    transfer.out_done_ = device_.record(stream);
    tier_.stored(piece, transfer.out_done_);
    counters_.out_bytes += bytes;
  }
}

// While the peak is not known two transfers have to do: a stash that holds most of what is moved saves nothing. Once it
// is, make_room() decides.
int64_t Offload::stash_limit() const {
  return goal_ > 0 ? settings_.stash_bytes : std::min(settings_.stash_bytes, 2 * largest_bytes_);
}

// Copies that have ended give their memory back for nothing; else compute waits, from the oldest on, until one may
// stay.
void Offload::retire(const std::function<bool(const Transfer&)>& may_stay) {
  while (!stash_.empty()) {
    auto transfer = stash_.front().lock();
    const bool stashed = transfer && transfer->state_ == State::stashed;
    if (stashed && transfer->out_done_ && !transfer->out_done_->done() && may_stay(*transfer)) return;
    stash_.pop_front();
    if (stashed) unstash(*transfer);
  }
}

void Offload::unstash(Transfer& transfer) {
  if (transfer.out_done_) compute_waits(transfer.out_done_);  // none: there was no room for its first piece
  transfer.source_ = at::Storage();
  transfer.state_ = State::away;
  stash_bytes_ -= transfer.bytes_;
}

void Offload::compute_waits(const device::EventPtr& event) {
  device::Stopwatch::Lap lap(waits_);
  device_.wait(Stream::compute, event);
}

void Offload::flush() {
  end_block();
  retire([](const Transfer&) { return false; });
}

void Offload::begin_head() {
  if (goal_ == 0) flush();
}

// What has not left yet stays when there is room until it is wanted: that saves both copies their wait.
void Offload::end_forward() {
  if (goal_ == 0) return flush();
  end_block();
  for (auto weak = stash_.rbegin(); weak != stash_.rend(); ++weak) {
    auto transfer = weak->lock();
    if (!transfer || transfer->state_ != State::stashed) continue;
    if (fits_until_wanted(*transfer)) {
      hold_until_wanted(*transfer);
    } else {
      unstash(*transfer);
    }
  }
}

void Offload::begin_learning() {
  learning_ = true;
  goal_ = 0;
  peaks_.clear();
  wanted_.clear();
}

void Offload::end_learning(int64_t forward_peak) {
  const int64_t last = device_.memory().peak_allocated;
  goal_ = std::max(forward_peak, last);
  for (int64_t peak : peaks_) goal_ = std::max(goal_, peak);
  peaks_.push_back(last);
  learning_ = false;
}

void Offload::begin_unpack() {
  ++unpack_;
  if (!learning_) return;
  if (unpack_ > 0) peaks_.push_back(device_.memory().peak_allocated);
  device_.reset_peak();
}

// Whether the transfer's bytes can lie on the device from now until they are wanted.
bool Offload::fits_until_wanted(const Transfer& transfer) const {
  const int wanted = transfer.number_ < wanted_.size() ? wanted_[transfer.number_] : -1;
  for (int i = std::max(unpack_, 0); i < wanted; ++i)
    if (peaks_[i] + early_[i] + transfer.bytes_ > goal_) return false;
  return wanted >= 0;
}

void Offload::hold_until_wanted(const Transfer& transfer) {
  for (int i = std::max(unpack_, 0); i < wanted_[transfer.number_]; ++i) early_[i] += transfer.bytes_;
}

void Offload::make_room(int64_t bytes) {
  if (goal_ == 0) return;
  retire([&](const Transfer&) { return device_.memory().allocated + bytes <= goal_; });
}

// Orders compute behind the copy out.
void Offload::before_overwrite(Transfer& transfer) {
  if (transfer.state_ == State::gathered) start_out(transfer, std::move(transfer.source_));
  if (transfer.state_ == State::stashed) unstash(transfer);
}

void Offload::start_back(Transfer& transfer) {
  at::Tensor target = at::empty({transfer.bytes_}, at::TensorOptions(device::torch_device(device_)).dtype(at::kByte));
  // The memory may have been freed by work that compute has not reached yet. The copy out has ended before that work:
  // compute waited for it when the source went.
  if (settings_.side_stream) device_.wait(Stream::in, device_.record(Stream::compute));
  transfer.target_ = target.storage();
  transfer.state_ = State::coming_back;
  ahead_bytes_ += transfer.bytes_;
}

// Copies back the pieces that are in host memory, in order; with may_block also those that have to be read first.
// True when all are issued.
bool Offload::copy_back(Transfer& transfer, bool may_block) {
  const Stream stream = settings_.side_stream ? Stream::in : Stream::compute;
  while (transfer.copied_back_ < transfer.pieces_.size()) {
    const tier::PiecePtr& piece = transfer.pieces_[transfer.copied_back_];
    if (!may_block && !tier_.ready(*piece)) return false;
    const char* from = tier_.fetch(piece);
    const trace::CopiesScope recording(recorder_, transfer.value_);
    const int64_t offset = static_cast<int64_t>(transfer.copied_back_) * kDiskPiece;  // all but the last are as long
    device_.copy(static_cast<char*>(transfer.target_.mutable_data()) + offset, from, piece->bytes, Direction::to_device,
                 stream);
    transfer.in_done_ = device_.record(stream);
    tier_.drop(piece, transfer.in_done_);
    counters_.in_bytes += piece->bytes;
    ++transfer.copied_back_;
    if (transfer.to_disk_) read_ahead();
  }
  return true;
}

at::Storage Offload::bring_back(Transfer& transfer) {
  group_wanted_ = transfer.group_;
  if (learning_) {
    wanted_.resize(std::max(wanted_.size(), transfer.number_ + 1), -1);
    if (wanted_[transfer.number_] < 0) wanted_[transfer.number_] = unpack_;
  }
  // Never left: the stash owns it too, as long as the copy out runs.
  if (transfer.state_ == State::gathered || transfer.state_ == State::stashed) return transfer.source_;
  if (transfer.state_ == State::away) start_back(transfer);
  copy_back(transfer, /*may_block=*/true);
  compute_waits(transfer.in_done_);
  ahead_bytes_ -= transfer.bytes_;
  transfer.state_ = State::returned;
  return std::move(transfer.target_);
}

bool Offload::room_for(const Transfer& transfer) {
  if (goal_ > 0) {
    if (!fits_until_wanted(transfer)) return false;
  } else {
    const device::MemoryUse memory = device_.memory();
    if (ceiling_ == 0) ceiling_ = memory.peak_allocated;
    if (memory.allocated + transfer.bytes_ > ceiling_) return false;
  }
  if (settings_.schedule == Schedule::block) return transfer.group_ >= group_wanted_ - settings_.prefetch_blocks;
  return ahead_bytes_ == 0 || ahead_bytes_ + transfer.bytes_ <= settings_.prefetch_bytes;
}

void Offload::prefetch() {
  if (tier_.has_disk()) read_ahead();
  if (learning_ || (settings_.schedule == Schedule::value && settings_.prefetch_bytes == 0)) return;
  while (!order_.empty()) {
    auto transfer = order_.back().lock();
    if (transfer && transfer->state_ == State::away) {
      if (!room_for(*transfer)) return;
      if (goal_ > 0) hold_until_wanted(*transfer);
      start_back(*transfer);
    }
    if (transfer && transfer->state_ == State::coming_back && !copy_back(*transfer, /*may_block=*/false)) return;
    order_.pop_back();
  }
}

void Offload::read_ahead() {
  for (to_read_ = std::min(to_read_, order_.size()); to_read_ > 0; --to_read_) {
    auto transfer = order_[to_read_ - 1].lock();
    if (!transfer || !transfer->to_disk_) continue;
    for (size_t i = transfer->copied_back_; i < transfer->pieces_.size(); ++i)
      if (!tier_.read_ahead(transfer->pieces_[i])) return;
  }
}

// Whatever the state, nothing may touch freed memory: compute, which reuses it, waits for copies in flight.
void Offload::forget(Transfer& transfer) noexcept {
  if (transfer.state_ == State::gathered) return;
  if (transfer.state_ == State::stashed) unstash(transfer);
  if (transfer.state_ == State::coming_back) {
    if (transfer.in_done_) device_.wait(Stream::compute, transfer.in_done_);
    ahead_bytes_ -= transfer.bytes_;
  }
  for (const tier::PiecePtr& piece : transfer.pieces_) tier_.drop(piece);
}

}  // namespace memtune::offload
