// What autograd holds for one saved tensor, and what it has come to:
//
//   still ── becomes a view of a value ──> the value is used until the saved tensor dies
//     └───── becomes an op's private save ──> the op makes it again
//
// A saved tensor that becomes neither keeps its storage as it is: a parameter, say. Where it was saved by the op that
// makes it, it is resolved when the op has returned.
#pragma once

#include <variant>

#include "core/autograd/geometry.h"
#include "core/autograd/hooks.h"
#include "core/autograd/saved_value.h"
#include "core/checkpoint/instance.h"

namespace memtune::step {

class SavedTensor final : public autograd::Ticket {
 public:
  // Who hands saved tensors out; outlives them.
  class Unpacker {
   public:
    virtual at::Tensor unpack(const SavedTensor& saved) = 0;
    virtual void ended(const SavedTensor& saved) noexcept = 0;  // it dies; its bytes are let go behind that,
    virtual void let_go() noexcept = 0;                         // and now they are

   protected:
    ~Unpacker() = default;
  };

  // `number`: which of the running op's saves it is; op -1: none runs.
  SavedTensor(Unpacker& unpacker, const at::Tensor& tensor, int block, int number, int op = -1);
  ~SavedTensor() override {
    unpacker_.ended(*this);
    bytes_ = at::Storage();
    unpacker_.let_go();
  }

  at::Tensor unpack() override { return unpacker_.unpack(*this); }

  void become(autograd::Use use) { bytes_ = std::move(use); }
  // The same with bytes that lie otherwise.
  void become(autograd::Use use, const autograd::Geometry& geometry) {
    geometry_ = geometry;
    bytes_ = std::move(use);
  }
  void become(checkpoint::PrivateUse use) { bytes_ = std::move(use); }

  bool stays() const { return bytes_.index() <= 1; }
  int op() const { return op_; }        // that saved it
  int block() const { return block_; }  // of the op that saved it
  int number() const { return number_; }
  uint32_t version() const { return version_; }  // of the tensor, when it was saved
  trace::ValueKey key() const;                   // op -1: it stays

  // c10::Error, as autograd's own, when the tensor was written into since.
  void check_version() const;
  // The tensor without history; brought back or made again where it has to be.
  at::Tensor tensor() const;

 private:
  using Other = at::Tensor;  // not plain bytes

  Unpacker& unpacker_;
  autograd::Geometry geometry_;
  c10::VariableVersion counter_;
  uint32_t version_;
  int op_, block_, number_;
  std::variant<at::Storage, Other, autograd::Use, checkpoint::PrivateUse> bytes_;
};

}  // namespace memtune::step
