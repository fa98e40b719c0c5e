#include "core/engine/state/async_host_state_snapshot.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace memtune::state {
namespace {

using device::StreamKind;
using safetensors::TensorEntry;
using safetensors::TensorNameDtypeAndShape;

constexpr int64_t kPortionBytes = int64_t{32} << 20;

std::vector<TensorNameDtypeAndShape> specs_of(const std::vector<TensorToSave>& parts) {
  std::vector<TensorNameDtypeAndShape> specs;
  for (const TensorToSave& part : parts) specs.push_back(part.spec);
  return specs;
}

}  // namespace

int64_t bytes_of(const std::vector<TensorToSave>& parts) {
  return safetensors::data_bytes_of(safetensors::lay_out(specs_of(parts)));
}

ShardExtents extents_of(const std::vector<TensorToSave>& parts) {
  ShardExtents extents;
  for (const TensorToSave& part : parts)
    if (part.part) extents[part.spec.name] = *part.part;
  return extents;
}

AsyncHostStateSnapshot::AsyncHostStateSnapshot(device::Device& device, int64_t step, std::vector<TensorToSave> parts,
                                               device::HostBuffer& image, bool pinned)
    : device_(device),
      step_(step),
      image_(image),
      pinned_(pinned),
      specs_(specs_of(parts)),
      extents_(extents_of(parts)),
      entries_(safetensors::lay_out(specs_)) {
  lay_out(std::move(parts));
  device_.wait(StreamKind::out, device_.record(StreamKind::compute));
  send_next();
  // The host waits too, not only the compute stream. The driver may see the rest of the copies before that stream's
  // wait, which then takes as long as all of them.
  portions_.front().left->synchronize();
}

AsyncHostStateSnapshot::~AsyncHostStateSnapshot() {
  abandon();
  try {
    for (const Portion& portion : portions_)
      if (portion.left) portion.left->synchronize();
  } catch (const Error&) {
    device_.synchronize_quietly();
  }
}

// In the order of the file, so that the writer need not wait for later bytes.
void AsyncHostStateSnapshot::lay_out(std::vector<TensorToSave> parts) {
  std::map<std::string, TensorToSave> by_name;
  for (TensorToSave& part : parts) by_name[part.spec.name] = std::move(part);
  portions_.resize(2);
  for (const TensorEntry& entry : entries_) {
    TensorToSave& part = by_name.at(entry.name);
    if (entry.bytes() == 0) continue;
    if (!part.on_device) {
      std::memcpy(image_.data() + entry.begin, part.data, static_cast<size_t>(entry.bytes()));
      continue;
    }
    if (!part.changes_in_forward && portions_.back().bytes >= kPortionBytes) portions_.emplace_back();
    add(std::move(part), entry);
    portions_until_[entry.end] = portions_.size();
  }
}

void AsyncHostStateSnapshot::add(TensorToSave part, const TensorEntry& entry) {
  const size_t number = part.changes_in_forward ? 0 : portions_.size() - 1;
  Portion& portion = portions_[number];
  portion.copies.push_back({image_.data() + entry.begin, part.data, entry.bytes()});
  portion.bytes += entry.bytes();
  size_t& last = portion_by_memory_[part.memory];
  last = std::max(last, number);
  portion.parts.push_back(std::move(part));
}

void AsyncHostStateSnapshot::send(int64_t most_bytes) {
  for (; events_ < portions_.size() && portions_[events_].bytes <= most_bytes; send_next())
    most_bytes -= portions_[events_].bytes;
}

void AsyncHostStateSnapshot::send_next() {
  Portion& portion = portions_[events_];
  if (pinned_) {
    device_.copy_batch(portion.copies, device::CopyDirection::to_host, StreamKind::out);
  } else {
    for (const auto& [to, from, bytes] : portion.copies)
      device_.copy(to, from, bytes, device::CopyDirection::to_host, StreamKind::out);
  }
  portion.left = device_.record(StreamKind::out);
  {
    std::lock_guard lock(mutex_);
    ++events_;
  }
  changed_.notify_all();
}

size_t AsyncHostStateSnapshot::pending(const void* memory) const {
  const auto found = portion_by_memory_.find(memory);
  if (found == portion_by_memory_.end() || portions_[found->second].left->done()) return 0;
  return found->second + 1;
}

void AsyncHostStateSnapshot::release_sources() {
  for (Portion& portion : portions_)
    if (!portion.parts.empty() && portion.left && portion.left->done()) portion.parts.clear();
}

void AsyncHostStateSnapshot::confirm() {
  if (confirmed_) return;
  for (const Portion& portion : portions_)
    for (const TensorToSave& part : portion.parts)
      if (!part.changes_in_forward && part.is_unchanged && !part.is_unchanged())
        return fail(
            std::make_exception_ptr(IoError("the model writes to '" + part.spec.name +
                                            "' itself, while it is copied: --save sync and async can save its state")));
  {
    std::lock_guard lock(mutex_);
    confirmed_ = true;
  }
  changed_.notify_all();
}

void AsyncHostStateSnapshot::abandon() {
  if (sent() && confirmed_) return;
  fail(std::make_exception_ptr(
      Error("the training ended before the state of step " + std::to_string(step_) + " had been copied")));
}

void AsyncHostStateSnapshot::fail(std::exception_ptr why) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
  }
  changed_.notify_all();
}

void AsyncHostStateSnapshot::wait() {
  send();
  portions_.back().left->synchronize();
}

void AsyncHostStateSnapshot::await_bytes(int64_t end) const {
  if (portions_until_.empty()) return;
  const auto found = portions_until_.lower_bound(end);
  const size_t count = found == portions_until_.end() ? portions_until_.rbegin()->second : found->second;
  device::EventPtr left;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || events_ >= count; });
    if (failure_) std::rethrow_exception(failure_);
    left = portions_[count - 1].left;
  }
  left->synchronize();
}

void AsyncHostStateSnapshot::await_confirmed() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || confirmed_; });
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace memtune::state
