// Saving tensors in forward and unpacking them in backward.
#include <torch/csrc/autograd/function.h>

#include "core/base/elapsed.h"
#include "core/engine/step/executor.h"

namespace memtune::step {

using autograd::SavedValue;
using autograd::Use;
using autograd::ValuePtr;
using checkpoint::InstancePtr;
using plan::Place;
using trace::ValueKey;

std::unique_ptr<autograd::Ticket> Executor::pack(const at::Tensor& tensor) {
  const Elapsed host(host_time_);
  const int op = running_ ? running_.op().id : -1;
  auto saved = std::make_unique<SavedTensor>(*this, tensor, block_, running_.next_save(), op);
  if (running_ && sends_saves()) {
    if (may_be_written(tensor))
      running_.wait_for_end(*saved, tensor);
    else
      send_save(*saved, tensor);
    return saved;
  }
  if (!running_ || !values_.covers(tensor)) return saved;
  const auto storage = ValueTable::storage_of(tensor);
  const bool written = running_.writes(storage) != nullptr;
  ValuePtr value = written ? nullptr : values_.find(storage);
  if (value)
    become(*saved, std::move(value));
  else if (written || !running_.reads(storage))
    running_.wait_for_end(*saved, tensor);
  return saved;
}

void Executor::become(SavedTensor& saved, ValuePtr value) {
  if (costs_) costs_->saved(saved, *value);
  saved.become(use(std::move(value), Use::By::backward));
  if (trace_) trace_->saved(saved.key());
}

bool Executor::sends_saves() const { return !running_.instance && ops_[running_.op().id].sends_saves(); }

// True if the running op may still write the tensor: it is not an input, e.g. the noise of rrelu. Later saves of the op
// wait too, so that all are offloaded in order.
bool Executor::may_be_written(const at::Tensor& tensor) const {
  if (!autograd::is_plain(tensor)) return false;
  const auto storage = ValueTable::storage_of(tensor);
  return running_.waits() || !running_.reads(storage) || running_.writes(storage);
}

// The copy belongs to this op, whichever op made the value and wherever the value is.
void Executor::send_save(SavedTensor& saved, const at::Tensor& tensor) {
  offload_.count_save();
  const bool known = autograd::is_plain(tensor) && values_.has(ValueTable::storage_of(tensor));
  const ValueKey of = known ? values_.find(ValueTable::storage_of(tensor))->key() : ValueKey{};
  const SavedValue::Origin origin{of.op >= 0 ? of.op : saved.op(), of.op >= 0 ? of.output : kPrivate, block_};
  auto copy = copies_.take(tensor, origin);
  if (!copy) return;
  if (trace_) sent_.insert({origin.op, origin.output});
  saved.become(use(copy->value, Use::By::backward), copy->geometry);
  if (trace_) trace_->saved(saved.key());
}

// The op has returned: each waiting tensor is now an output, a written argument or the op's private tensor.
void Executor::resolve(const RunningOp::Waiting& waiting) {
  const auto* written = running_.writes(waiting.storage);
  if (written && waiting.saved->version() == written->version) return;  // overwritten by the op itself: unpack throws
  if (sends_saves()) return send_save(*waiting.saved, waiting.saved->tensor());
  if (ValuePtr value = values_.find(waiting.storage)) return become(*waiting.saved, std::move(value));
  resolve_private(waiting);
}

void Executor::resolve_private(const RunningOp::Waiting& waiting) {
  const Place place = ops_[running_.op().id].saved();
  if (place == Place::keep && !costs_) return;
  // Autocast shares the cast copy of a parameter between its consumers. It is never offloaded, and recomputed only from
  // the op's own input.
  if (waiting.cast_parameter && waiting.cast_source < 0) return;
  SavedTensor& saved = *waiting.saved;
  const at::Tensor tensor = saved.tensor();
  if (costs_) tell_costs_of_private(waiting, tensor);
  if (place == Place::keep || (waiting.cast_parameter && place != Place::recompute)) return;
  if (static_cast<int64_t>(tensor.storage().nbytes()) < plan_.saved_min_bytes) return;
  const auto add = [&](Place wanted, const InstancePtr& maker) {
    return add_value(tensor, running_.op().id, kPrivate, wanted, maker, 0);
  };
  if (place != Place::recompute) return become(saved, add(place, nullptr));
  if (!running_.written().empty()) return;
  if (waiting.cast_source >= 0) {
    const at::Tensor& source = running_.input(waiting.cast_source);
    // cheaper than recomputing the op
    return become(saved, add(place, recorder_.record_cast(source, tensor.scalar_type(), block_,
                                                          [this](const at::Tensor& t) { return use_for_rerun(t); })));
  }
  if (!running_.instance) return;
  saved.become(checkpoint::PrivateUse(running_.instance, saved.number()));
  if (trace_) trace_->saved({running_.op().id, kPrivate, static_cast<int64_t>(tensor.nbytes())});
}

// Reports a private tensor that another plan could offload or recompute, whatever this plan does with it.
void Executor::tell_costs_of_private(const RunningOp::Waiting& waiting, const at::Tensor& tensor) {
  costs_->saved_private(*waiting.saved, tensor.storage());
  if (waiting.cast_source < 0) return;
  const at::Tensor& source = running_.input(waiting.cast_source);
  costs_->cast(tensor.storage(), values_.covers(source) ? values_.find(ValueTable::storage_of(source)) : nullptr);
}

at::Tensor Executor::unpack(const SavedTensor& saved) {
  const Elapsed host(host_time_);
  saved.check_version();
  const ValueKey key = saved.key();
  if (trace_) trace_->used(key, saved.block());
  if (costs_) costs_->asked(saved);
  offload_.backward_in(saved.block());
  at::Tensor tensor = saved.stays() ? saved.tensor() : bytes_of(saved, key);
  if (costs_) costs_->handed(saved);
  return tensor;
}

at::Tensor Executor::bytes_of(const SavedTensor& saved, const ValueKey& key) {
  offload_.begin_unpack(torch::autograd::get_current_node().get());
  recompute_.enter_block(saved.block());
  at::Tensor tensor = saved.tensor();
  // Memory use is highest during the backward of head and loss. Learning engines prefetch there only by a learned
  // schedule.
  if (offload_.prefetches_in_head() || key.op < 0 || !ops_[key.op].after_blocks) offload_.prefetch();
  return tensor;
}

void Executor::ended(const SavedTensor& saved) noexcept {
  if (saved.stays()) running_.forget(saved);
  if (costs_) costs_->ended(saved);
}

void Executor::let_go() noexcept {
  if (costs_) costs_->let_go();
}

}  // namespace memtune::step
