// The ticket that autograd holds for one saved tensor, and what it resolves to:
//
//   own storage ── becomes a view of a value ──> the value has a consumer until the saved tensor is destroyed
//     └─────────── becomes an op's private save ──> the op recomputes it
//
// A saved tensor that becomes neither keeps its storage, e.g. a parameter's. A tensor that its own op saved is resolved
// when the op returns.
#pragma once

#include <variant>

#include "core/engine/autograd/hooks.h"
#include "core/engine/autograd/saved_storage.h"
#include "core/engine/autograd/view_geometry.h"
#include "core/engine/checkpoint/recorded_op.h"

namespace memtune::step {

class SavedTensorHandle final : public autograd::PackedSavedTensor {
 public:
  // Unpacks saved tensors and must outlive them.
  class Unpacker {
   public:
    virtual at::Tensor unpack(SavedTensorHandle& saved) = 0;
    virtual void release_began(
        const SavedTensorHandle& saved) noexcept = 0;  // destruction begins, its bytes are still held
    virtual void release_ended() noexcept = 0;         // its bytes are released

   protected:
    ~Unpacker() = default;
  };

  // `number`: index of the save among those of the running op. `op` -1: no op runs.
  SavedTensorHandle(Unpacker& unpacker, const at::Tensor& tensor, int block, int number, int op = -1);
  ~SavedTensorHandle() override {
    unpacker_.release_began(*this);
    bytes_ = at::Storage();
    unpacker_.release_ended();
  }

  at::Tensor unpack() override { return unpacker_.unpack(*this); }

  void attach(autograd::SavedStorageConsumerReference use) { bytes_ = std::move(use); }
  // The same, with another geometry.
  void attach(autograd::SavedStorageConsumerReference use, const autograd::ViewGeometry& geometry) {
    geometry_ = geometry;
    bytes_ = std::move(use);
  }
  void attach(checkpoint::RecomputedPrivateSaveHandle use) { bytes_ = std::move(use); }

  bool stays() const { return bytes_.index() <= 1; }
  int op() const { return op_; }        // the op that saved it; -1: none
  int block() const { return block_; }  // block of that op
  int number() const { return number_; }
  uint32_t version() const { return version_; }  // version of the tensor when it was saved
  trace::ActivationOpOutputKey key() const;      // op is -1 if it stays

  // Throws c10::Error, as autograd does, if the tensor was written to since it was saved.
  void check_version() const;
  // Returns the tensor without history. Reloads or recomputes it if necessary.
  at::Tensor tensor() const;
  // Makes the returned tensor the owner of bytes that were recomputed for this handle. Autograd releases it before it
  // sums the gradients of broadcast inputs, whose work space can be large, and this handle only afterwards.
  void release_recomputed() noexcept;

 private:
  using Other = at::Tensor;  // tensors that are not plain bytes

  Unpacker& unpacker_;
  autograd::ViewGeometry geometry_;
  c10::VariableVersion counter_;
  uint32_t version_;
  int op_, block_, number_;
  std::variant<at::Storage, Other, autograd::SavedStorageConsumerReference, checkpoint::RecomputedPrivateSaveHandle>
      bytes_;
};

}  // namespace memtune::step
