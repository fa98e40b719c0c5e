// A buffer is known by its storage, not by its address: addresses come back.
#include "core/autograd/buffer.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace memtune::autograd {
namespace {

TEST_CASE("a buffer sees its storage while somebody holds it, and not what comes to its address later") {
  at::Tensor tensor = at::ones({256});
  Buffer buffer(tensor);
  CHECK(buffer.bytes == 1024);
  CHECK(buffer.alive().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl());
  const void* address = tensor.const_data_ptr();
  tensor.reset();
  CHECK_FALSE(buffer.alive());
  for (int i = 0; i < 100; ++i) {  // one of these is likely to get the address
    at::Tensor other = at::ones({256});
    CHECK_FALSE(buffer.alive());
    if (other.const_data_ptr() == address) break;
  }
}

TEST_CASE("a storage that was written into is not the buffer's any more") {
  at::Tensor tensor = at::ones({4});
  Buffer buffer(tensor);
  buffer.overwritten = true;
  CHECK_FALSE(buffer.alive());
}

TEST_CASE("tickets and readers are what needs a buffer") {
  Buffer buffer(at::ones({4}));
  CHECK_FALSE(buffer.needed());
  buffer.readers = 1;
  CHECK(buffer.needed());
  buffer.readers = 0;
  buffer.tickets = 1;
  CHECK(buffer.needed());
}

}  // namespace
}  // namespace memtune::autograd
