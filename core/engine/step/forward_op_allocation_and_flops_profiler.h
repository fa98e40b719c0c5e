// Measures one forward: bytes that each op's outputs allocate, which of them autograd saves, and flops. Saved tensors
// are dropped at once, so models that do not fit for training can be surveyed too.
//
//   Survey survey(program, facts, device);
//   { autograd::SavedTensorHooksScope hooks(&survey); interpreter.run(inputs, &survey); }   // grad mode on; no
//   backward
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "core/engine/autograd/hooks.h"
#include "core/model/program/interpreter.h"
#include "core/plan/facts/program_facts.h"

namespace memtune::step {

class ForwardOpAllocationAndFlopsProfiler final : public program::OpObserver, public autograd::SavedTensorPacker {
 public:
  // Fills output_bytes, output_saved, private_bytes, flops and dtype of `facts`. Ops that run more than once count each
  // time.
  ForwardOpAllocationAndFlopsProfiler(const program::Program& program, plan::ProgramFacts& facts,
                                      c10::DeviceType device);

  void before(const program::Op& op, const program::Stack& inputs) override;
  void after(const program::Op& op, const program::Stack& outputs) override;
  std::unique_ptr<autograd::PackedSavedTensor> pack(const at::Tensor& tensor) override;

 private:
  using Impl = const c10::StorageImpl*;
  struct Value {  // a storage and its origin; weak, because addresses are reused
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int op = -1;  // -1: from outside of the forward
    size_t output = 0;
  };

  bool is_new(const at::Tensor& tensor) const;
  void note(const at::Tensor& tensor, int op, size_t output);
  void note_saved(const at::Storage& storage);

  plan::ProgramFacts& facts_;
  c10::DeviceType device_;
  std::unordered_map<Impl, Value> values_;
  const program::Op* op_ = nullptr;
  bool autocast_ = false;           // whether it is on around the running op; inside it is already off
  double factor_ = 0;               // flops of the running op per output element
  std::vector<at::Storage> saved_;  // by the running op
};

}  // namespace memtune::step
