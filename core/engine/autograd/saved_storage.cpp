#include "core/engine/autograd/saved_storage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "core/base/error.h"

namespace memtune::autograd {
namespace {

at::Storage copy_of(const at::Storage& bytes) {
  const at::NoGradGuard no_grad;
  at::Tensor live = at::empty({0}, at::TensorOptions(bytes.device()).dtype(at::kByte));
  live.set_(bytes, 0, {static_cast<int64_t>(bytes.nbytes())}, {1});
  return live.clone().storage();
}

}  // namespace

SavedStorageConsumerReference::SavedStorageConsumerReference(SavedStoragePtr value, ConsumerKind by)
    : value_(std::move(value)), by_(by), counts_(true) {
  ++value_->uses(by_);
}

SavedStorageConsumerReference::SavedStorageConsumerReference(SavedStorageConsumerReference&& other) noexcept
    : value_(std::move(other.value_)), by_(other.by_), counts_(std::exchange(other.counts_, false)) {}

SavedStorageConsumerReference& SavedStorageConsumerReference::operator=(
    SavedStorageConsumerReference&& other) noexcept {
  std::swap(value_, other.value_);
  std::swap(by_, other.by_);
  std::swap(counts_, other.counts_);
  return *this;
}

void SavedStorageConsumerReference::end() noexcept {
  if (!std::exchange(counts_, false)) return;
  --value_->uses(by_);
  if (!value_->used()) value_->drop_bytes();
}

SavedStorage::SavedStorage(const at::Storage& storage, const Origin& origin, plan::TensorPlacement place)
    : storage_(storage.getWeakStorageImpl()),
      bytes_(static_cast<int64_t>(storage.nbytes())),
      origin_(origin),
      place_(place) {}

SavedStorage::SavedStorage(const at::Storage& storage, const Origin& origin,
                           std::shared_ptr<SavedStorageRecomputer> maker)
    : SavedStorage(storage, origin, plan::TensorPlacement::recompute) {
  maker_ = std::move(maker);
}

SavedStorage::State SavedStorage::state() const {
  if (held_) return State::held;
  if (offloaded_) return State::offloaded;
  return maker_ ? State::dropped : State::unretained;
}

at::Storage SavedStorage::live_storage() const {
  if (overwritten_) return {};
  auto impl = storage_.lock();
  return impl ? at::Storage(std::move(impl)) : at::Storage();
}

at::Storage SavedStorage::bytes() {
  switch (state()) {
    case State::held: return held_;
    case State::offloaded: return held_ = offloaded_->reload();
    case State::dropped: {
      at::Storage storage = live_storage();
      return storage ? storage : maker_->make(*this);
    }
    case State::unretained: break;
  }
  at::Storage storage = live_storage();
  if (!storage) throw Error("an activation is needed again that was freed and cannot be recomputed");
  return storage;
}

void SavedStorage::before_overwrite() {
  if (offloaded_) offloaded_->before_overwrite();
  if (rerun_uses_ > 0 && held_) held_ = copy_of(held_);
}

void SavedStorage::drop_bytes() noexcept {
  held_ = at::Storage();
  offloaded_.reset();
}

}  // namespace memtune::autograd
