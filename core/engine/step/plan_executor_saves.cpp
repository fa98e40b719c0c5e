// Saving tensors in forward and unpacking them in backward.
#include <torch/csrc/autograd/function.h>

#include "core/base/scoped_timer.h"
#include "core/engine/step/plan_executor.h"

namespace memtune::step {

using autograd::ConsumerHandle;
using autograd::SavedStorage;
using autograd::SavedStoragePtr;
using checkpoint::RecordedOpPtr;
using plan::TensorPlacement;
using trace::ValueKey;

std::unique_ptr<autograd::PackedTensor> PlanExecutor::pack(const at::Tensor& tensor) {
  const ScopedTimer host(host_time_);
  const int op = running_ ? running_.op().id : -1;
  auto saved = std::make_unique<SavedTensorHandle>(*this, tensor, block_, running_.next_save(), op);
  if (running_ && offloads_saves()) {
    if (may_be_written(tensor))
      running_.wait_for_end(*saved, tensor);
    else
      send_save(*saved, tensor);
    return saved;
  }
  if (!running_ || !values_.covers(tensor)) return saved;
  const auto storage = SavedStorageTable::storage_of(tensor);
  const bool written = running_.writes(storage) != nullptr;
  SavedStoragePtr value = written ? nullptr : values_.find(storage);
  if (value)
    attach(*saved, std::move(value));
  else if (written || !running_.reads(storage))
    running_.wait_for_end(*saved, tensor);
  return saved;
}

void PlanExecutor::attach(SavedTensorHandle& saved, SavedStoragePtr value) {
  if (costs_) costs_->saved(saved, *value);
  saved.attach(use(std::move(value), ConsumerHandle::ConsumerKind::backward));
  if (trace_) trace_->saved(saved.key());
}

bool PlanExecutor::offloads_saves() const { return !running_.instance && ops_[running_.op().id].offloads_saves(); }

// True if the running op may still write the tensor: it is not an input, e.g. the noise of rrelu. Later saves of the op
// wait too, so that all are offloaded in order.
bool PlanExecutor::may_be_written(const at::Tensor& tensor) const {
  if (!autograd::is_plain(tensor)) return false;
  const auto storage = SavedStorageTable::storage_of(tensor);
  return running_.waits() || !running_.reads(storage) || running_.writes(storage);
}

// The copy belongs to this op, whichever op made the value and wherever the value is.
void PlanExecutor::send_save(SavedTensorHandle& saved, const at::Tensor& tensor) {
  offload_.count_save();
  const bool known = autograd::is_plain(tensor) && values_.has(SavedStorageTable::storage_of(tensor));
  const ValueKey of = known ? values_.find(SavedStorageTable::storage_of(tensor))->key() : ValueKey{};
  const SavedStorage::Origin origin{of.op >= 0 ? of.op : saved.op(), of.op >= 0 ? of.output : kPrivateSave, block_};
  auto copy = copies_.take(tensor, origin);
  if (!copy) return;
  if (trace_) sent_.insert({origin.op, origin.output});
  saved.attach(use(copy->value, ConsumerHandle::ConsumerKind::backward), copy->geometry);
  if (trace_) trace_->saved(saved.key());
}

// The op has returned: each waiting tensor is now an output, a written argument or the op's private tensor.
void PlanExecutor::resolve(const RunningOp::Waiting& waiting) {
  const auto* written = running_.writes(waiting.storage);
  if (written && waiting.saved->version() == written->version) return;  // overwritten by the op itself: unpack throws
  if (offloads_saves()) return send_save(*waiting.saved, waiting.saved->tensor());
  if (SavedStoragePtr value = values_.find(waiting.storage)) return attach(*waiting.saved, std::move(value));
  resolve_private(waiting);
}

void PlanExecutor::resolve_private(const RunningOp::Waiting& waiting) {
  const TensorPlacement place = ops_[running_.op().id].saved();
  if (place == TensorPlacement::keep && !costs_) return;
  // Autocast shares the cast copy of a parameter between its consumers. It is never offloaded, and recomputed only from
  // the op's own input.
  if (waiting.cast_parameter && waiting.cast_source < 0) return;
  SavedTensorHandle& saved = *waiting.saved;
  const at::Tensor tensor = saved.tensor();
  if (costs_) record_private_cost(waiting, tensor);
  if (place == TensorPlacement::keep || (waiting.cast_parameter && place != TensorPlacement::recompute)) return;
  if (static_cast<int64_t>(tensor.storage().nbytes()) < plan_.saved_min_bytes) return;
  const auto add = [&](TensorPlacement wanted, const RecordedOpPtr& maker) {
    return add_value(tensor, running_.op().id, kPrivateSave, wanted, maker, 0);
  };
  if (place != TensorPlacement::recompute) return attach(saved, add(place, nullptr));
  if (!running_.written().empty()) return;
  if (waiting.cast_source >= 0) {
    const at::Tensor& source = running_.input(waiting.cast_source);
    // cheaper than recomputing the op
    return attach(saved, add(place, recorder_.record_cast(source, tensor.scalar_type(), block_,
                                                          [this](const at::Tensor& t) { return use_for_rerun(t); })));
  }
  if (!running_.instance) return;
  saved.attach(checkpoint::PrivateSaveHandle(running_.instance, saved.number()));
  if (trace_) trace_->saved({running_.op().id, kPrivateSave, static_cast<int64_t>(tensor.nbytes())});
}

// Reports a private tensor that another plan could offload or recompute, whatever this plan does with it.
void PlanExecutor::record_private_cost(const RunningOp::Waiting& waiting, const at::Tensor& tensor) {
  costs_->saved_private(*waiting.saved, tensor.storage());
  if (waiting.cast_source < 0) return;
  const at::Tensor& source = running_.input(waiting.cast_source);
  costs_->cast(tensor.storage(),
               values_.covers(source) ? values_.find(SavedStorageTable::storage_of(source)) : nullptr);
}

at::Tensor PlanExecutor::unpack(const SavedTensorHandle& saved) {
  const ScopedTimer host(host_time_);
  saved.check_version();
  const ValueKey key = saved.key();
  if (trace_) trace_->used(key, saved.block());
  if (costs_) costs_->unpack_began(saved);
  offload_.enter_backward_block(saved.block());
  at::Tensor tensor = saved.stays() ? saved.tensor() : bytes_of(saved, key);
  if (costs_) costs_->unpack_ended(saved);
  return tensor;
}

at::Tensor PlanExecutor::bytes_of(const SavedTensorHandle& saved, const ValueKey& key) {
  offload_.begin_unpack(torch::autograd::get_current_node().get());
  recompute_.enter_block(saved.block());
  at::Tensor tensor = saved.tensor();
  // Memory use is highest during the backward of head and loss. Learning engines prefetch there only by a learned
  // schedule.
  if (offload_.prefetches_in_head() || key.op < 0 || !ops_[key.op].after_blocks) offload_.prefetch();
  return tensor;
}

void PlanExecutor::release_began(const SavedTensorHandle& saved) noexcept {
  if (saved.stays()) running_.forget(saved);
  if (costs_) costs_->release_began(saved);
}

void PlanExecutor::release_ended() noexcept {
  if (costs_) costs_->release_ended();
}

}  // namespace memtune::step
