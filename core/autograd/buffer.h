// The bytes of one value of a training step, wherever they are. A value belongs to a storage, not to a tensor: all
// views of it, and everyone who saved one, share a Buffer. An in-place write makes a new Buffer (the old one's bytes
// are gone unless somebody kept them), so a Buffer's content never changes.
//
//   made by an op -> needed by tickets (autograd saved it) and readers (a recompute starts from it)
//   keep:       resident holds the storage until nobody needs it
//   host:       transfer carries the bytes out and back; resident is set when they are back
//   recompute:  nothing is held; maker makes the bytes again, then resident holds them until nobody needs them
//
// Identity is the storage itself, held weakly: an address that was freed and handed out again is another storage.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/config/plan.h"
#include "core/trace/recorder.h"

namespace memtune::checkpoint {
struct Instance;
}
namespace memtune::offload {
class Transfer;
}

namespace memtune::autograd {

struct Buffer {
  explicit Buffer(const at::Tensor& tensor)
      : storage(tensor.storage().getWeakStorageImpl()), bytes(static_cast<int64_t>(tensor.storage().nbytes())) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  trace::ValueKey key() const { return {op, output, bytes}; }
  bool needed() const { return tickets + readers > 0; }

  // The storage that the step itself still holds, when its bytes are this buffer's.
  at::Storage alive() const {
    if (overwritten) return {};
    auto impl = storage.lock();
    return impl ? at::Storage(std::move(impl)) : at::Storage();
  }

  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  int64_t bytes;
  int op = -1;  // of the program, that made it; -1: it came from outside
  config::Place place = config::Place::keep;
  int output = 0;            // which of its outputs, lists flattened; ValueKey::kPrivate: saved for itself
  int block = -1;            // that op's
  bool crosses = false;      // another block than its own needs it
  bool overwritten = false;  // an in-place op wrote into the storage since
  int tickets = 0;           // saved tensors that autograd may ask for
  int readers = 0;           // recomputations to come that start from it
  at::Storage resident;      // the bytes, on the device, held for tickets and readers
  std::shared_ptr<offload::Transfer> transfer;
  std::shared_ptr<checkpoint::Instance> maker;
};
using BufferPtr = std::shared_ptr<Buffer>;

}  // namespace memtune::autograd
