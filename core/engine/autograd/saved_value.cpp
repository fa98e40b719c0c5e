#include "core/engine/autograd/saved_value.h"

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

Use::Use(ValuePtr value, By by) : value_(std::move(value)), by_(by), counts_(true) { ++value_->uses(by_); }

Use::Use(Use&& other) noexcept
    : value_(std::move(other.value_)), by_(other.by_), counts_(std::exchange(other.counts_, false)) {}

Use& Use::operator=(Use&& other) noexcept {
  std::swap(value_, other.value_);
  std::swap(by_, other.by_);
  std::swap(counts_, other.counts_);
  return *this;
}

void Use::end() noexcept {
  if (!std::exchange(counts_, false)) return;
  --value_->uses(by_);
  if (!value_->used()) value_->let_go();
}

SavedValue::SavedValue(const at::Storage& storage, const Origin& origin, plan::Place place)
    : storage_(storage.getWeakStorageImpl()),
      bytes_(static_cast<int64_t>(storage.nbytes())),
      origin_(origin),
      place_(place) {}

SavedValue::SavedValue(const at::Storage& storage, const Origin& origin, std::shared_ptr<Maker> maker)
    : SavedValue(storage, origin, plan::Place::recompute) {
  maker_ = std::move(maker);
}

SavedValue::State SavedValue::state() const {
  if (held_) return State::held;
  if (away_) return State::away;
  return maker_ ? State::dropped : State::passing;
}

at::Storage SavedValue::alive() const {
  if (overwritten_) return {};
  auto impl = storage_.lock();
  return impl ? at::Storage(std::move(impl)) : at::Storage();
}

at::Storage SavedValue::bytes() {
  switch (state()) {
    case State::held: return held_;
    case State::away: return held_ = away_->bring_back();
    case State::dropped: {
      at::Storage storage = alive();
      return storage ? storage : maker_->make(*this);
    }
    case State::passing: break;
  }
  at::Storage storage = alive();
  if (!storage) throw Error("a value is needed again that was dropped and cannot be made again");
  return storage;
}

void SavedValue::before_overwrite() {
  if (away_) away_->before_overwrite();
  if (rerun_uses_ > 0 && held_) held_ = copy_of(held_);
}

void SavedValue::let_go() noexcept {
  held_ = at::Storage();
  away_.reset();
}

}  // namespace memtune::autograd
