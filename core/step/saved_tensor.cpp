#include "core/step/saved_tensor.h"

#include "core/autograd/casts.h"
#include "core/base/elapsed.h"
#include "core/checkpoint/recompute.h"
#include "core/step/executor.h"

namespace memtune::step {

SavedTensor::SavedTensor(Executor& executor, const at::Tensor& tensor, int save)
    : executor_(executor),
      geometry_(tensor),
      counter_(tensor.unsafeGetTensorImpl()->version_counter()),
      version_(counter_.current_version()),
      save_(save),
      block_(executor.block_),
      tensor_(tensor.detach()) {
  if (!executor.autocast_) return;
  cast_parameter_ = autograd::is_cast_parameter(tensor);
  if (!cast_parameter_) cast_source_ = autograd::find_cast_source(tensor, executor.op_inputs_);
}

SavedTensor::~SavedTensor() {
  std::erase(executor_.pending_, this);
  if (instance_) instance_->captured.erase(save_);
}

at::Tensor SavedTensor::unpack() {
  const Elapsed host(executor_.host_time_);
  TORCH_CHECK(counter_.current_version() == version_,
              "one of the variables needed for gradient computation has been modified by an inplace operation: a "
              "saved tensor of ",
              geometry_.dtype.name(), " is at version ", counter_.current_version(), "; expected version ", version_,
              " instead");
  if (executor_.recorder_) executor_.recorder_->used(key(), block_);
  if (use_) return geometry_.view(executor_.bytes_of(*use_, block_));
  if (instance_) return executor_.saved_by(*instance_, save_, block_);
  return tensor_;
}

void SavedTensor::become(value::Use use) {
  use_ = std::move(use);
  if (executor_.recorder_) executor_.recorder_->saved(key());
  tensor_.reset();
}

void SavedTensor::become(const checkpoint::InstancePtr& instance) {
  instance->captured[save_];
  instance_ = instance;
  if (executor_.recorder_)
    executor_.recorder_->saved({instance->op->id, trace::ValueKey::kPrivate, static_cast<int64_t>(tensor_.nbytes())});
  tensor_.reset();
}

trace::ValueKey SavedTensor::key() const {
  if (use_) return use_->key();
  return {instance_ ? instance_->op->id : -1, trace::ValueKey::kPrivate};
}

}  // namespace memtune::step
