// Saved-tensor hooks without Python. A subclass of the autograd engine supplies the default hooks.
//
// Call install_engine() first in main. Inside a SavedTensorHooksScope, every tensor that autograd saves on this thread
// goes to the packer. The innermost scope applies; SavedTensorHooksPause disables hooks. A ticket lives as long as the
// saved tensor. Its destructor releases what it holds, even if the tensor was never unpacked.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace memtune::autograd {

class PackedSavedTensor {
 public:
  virtual ~PackedSavedTensor() = default;
  // Returns the saved tensor with the same sizes, strides, offset, dtype and bytes, without requires_grad. Called once
  // per backward pass.
  virtual at::Tensor unpack() = 0;
};

class SavedTensorPacker {
 public:
  virtual ~SavedTensorPacker() = default;
  // Keep only `tensor.detach()`: keeping the op's own output would be a reference cycle. Called with grad mode off.
  virtual std::unique_ptr<PackedSavedTensor> pack(const at::Tensor& tensor) = 0;
};

void install_engine();

// Runs loss.backward(). After an exception the engine still holds pending nodes and their tickets until another
// backward runs. This function runs an empty one, so that no ticket outlives its owner, and rethrows.
void backward(const at::Tensor& loss, bool retain_graph = false);

class SavedTensorHooksScope {
 public:
  explicit SavedTensorHooksScope(SavedTensorPacker* packer);  // nullptr: no hooks inside
  ~SavedTensorHooksScope();
  SavedTensorHooksScope(const SavedTensorHooksScope&) = delete;
  SavedTensorHooksScope& operator=(const SavedTensorHooksScope&) = delete;
};

struct SavedTensorHooksPause : SavedTensorHooksScope {
  SavedTensorHooksPause() : SavedTensorHooksScope(nullptr) {}
};

}  // namespace memtune::autograd
