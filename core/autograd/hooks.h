// Saved-tensor hooks without Python: an engine subclass answers autograd's question for default hooks.
//
// install_engine() is the first thing main does. Inside a HookScope every tensor that autograd saves on this thread
// goes to the packer; the innermost scope decides; HookPause means none. A ticket lives as long as the saved tensor:
// what it holds is released in its destructor, also when it was never unpacked.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace memtune::autograd {

class Ticket {
 public:
  virtual ~Ticket() = default;
  // The saved tensor again: same sizes, strides, offset, dtype and bytes. Once a backward pass; must not require grad.
  virtual at::Tensor unpack() = 0;
};

class Packer {
 public:
  virtual ~Packer() = default;
  // `tensor` may be kept only as detach() (the op's own output would be a cycle). Runs with grad mode off.
  virtual std::unique_ptr<Ticket> pack(const at::Tensor& tensor) = 0;
};

void install_engine();

// loss.backward(). One that throws leaves its next nodes, and the tickets they hold, in the thread's queue until
// another backward runs: this takes them out, so that no ticket outlives what it belongs to.
void backward(const at::Tensor& loss, bool retain_graph = false);

class HookScope {
 public:
  explicit HookScope(Packer* packer);  // nullptr: no hooks inside
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
};

struct HookPause : HookScope {
  HookPause() : HookScope(nullptr) {}
};

}  // namespace memtune::autograd
