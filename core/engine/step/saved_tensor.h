// The ticket that autograd holds for one saved tensor, and what it resolves to:
//
//   own storage ── becomes a view of a value ──> the value has a consumer until the saved tensor is destroyed
//     └─────────── becomes an op's private save ──> the op recomputes it
//
// A saved tensor that becomes neither keeps its storage, e.g. a parameter's. A tensor that its own op saved is resolved
// when the op returns.
#pragma once

#include <variant>

#include "core/engine/autograd/geometry.h"
#include "core/engine/autograd/hooks.h"
#include "core/engine/autograd/saved_value.h"
#include "core/engine/checkpoint/instance.h"

namespace memtune::step {

class SavedTensor final : public autograd::Ticket {
 public:
  // Unpacks saved tensors and must outlive them.
  class Unpacker {
   public:
    virtual at::Tensor unpack(const SavedTensor& saved) = 0;
    virtual void ended(const SavedTensor& saved) noexcept = 0;  // destruction begins, its bytes are still held
    virtual void let_go() noexcept = 0;                         // its bytes are released

   protected:
    ~Unpacker() = default;
  };

  // `number`: index of the save among those of the running op. `op` -1: no op runs.
  SavedTensor(Unpacker& unpacker, const at::Tensor& tensor, int block, int number, int op = -1);
  ~SavedTensor() override {
    unpacker_.ended(*this);
    bytes_ = at::Storage();
    unpacker_.let_go();
  }

  at::Tensor unpack() override { return unpacker_.unpack(*this); }

  void become(autograd::Use use) { bytes_ = std::move(use); }
  // The same, with another geometry.
  void become(autograd::Use use, const autograd::Geometry& geometry) {
    geometry_ = geometry;
    bytes_ = std::move(use);
  }
  void become(checkpoint::PrivateUse use) { bytes_ = std::move(use); }

  bool stays() const { return bytes_.index() <= 1; }
  int op() const { return op_; }        // the op that saved it; -1: none
  int block() const { return block_; }  // block of that op
  int number() const { return number_; }
  uint32_t version() const { return version_; }  // version of the tensor when it was saved
  trace::ValueKey key() const;                   // op is -1 if it stays

  // Throws c10::Error, as autograd does, if the tensor was written to since it was saved.
  void check_version() const;
  // Returns the tensor without history. Reloads or recomputes it if necessary.
  at::Tensor tensor() const;

 private:
  using Other = at::Tensor;  // tensors that are not plain bytes

  Unpacker& unpacker_;
  autograd::Geometry geometry_;
  c10::VariableVersion counter_;
  uint32_t version_;
  int op_, block_, number_;
  std::variant<at::Storage, Other, autograd::Use, checkpoint::PrivateUse> bytes_;
};

}  // namespace memtune::step
