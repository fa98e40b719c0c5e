// A value is known by its storage, not by its address: addresses come back. What it holds goes with its last use,
// whatever state it is in and however the use ends.
#include "core/engine/autograd/saved_storage.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <stdexcept>

#include "core/base/error.h"

namespace memtune::autograd {
namespace {

using State = SavedStorage::State;

SavedStoragePtr value_of(const at::Tensor& tensor, int block = -1) {
  return std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{3, 0, block},
                                        plan::TensorPlacement::keep);
}

bool holds(const at::Storage& storage, float content) {
  return storage && static_cast<const float*>(storage.data())[0] == content;
}

// Somewhere else; says when it is gone.
struct Elsewhere final : OffloadedCopy {
  Elsewhere(at::Tensor bytes, bool& there) : bytes(std::move(bytes)), there(there) { there = true; }
  ~Elsewhere() override { there = false; }
  at::Storage reload() override {
    ++trips;
    return bytes.storage();
  }
  void before_overwrite() override { ++warnings; }
  at::Tensor bytes;
  bool& there;
  int trips = 0, warnings = 0;
};

struct Fill final : RecomputeProducer {
  at::Storage make(SavedStorage& value) override {
    ++runs;
    value.hold(at::full({4}, 7.0F).storage());
    return value.on_device();
  }
  int runs = 0;
};

TEST_CASE("a value sees its storage while somebody holds it, and not what comes to its address later") {
  at::Tensor tensor = at::ones({256});
  const auto value = value_of(tensor);
  CHECK(value->size_bytes() == 1024);
  CHECK(value->live_storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl());
  tensor.reset();
  CHECK_FALSE(value->live_storage());
  CHECK_THROWS_WITH_AS(value->bytes(), doctest::Contains("cannot be recomputed"), Error);
}

TEST_CASE("a storage that was written into is not the value's any more") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  value->overwritten();
  CHECK_FALSE(value->live_storage());
}

TEST_CASE("what is held goes with the last use, not before") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  CHECK(value->state() == State::unretained);
  ConsumerHandle saved(value, ConsumerHandle::ConsumerKind::backward);
  ConsumerHandle rerun(value, ConsumerHandle::ConsumerKind::rerun);
  value->hold(tensor.storage());
  tensor.reset();
  saved.end();
  CHECK(value->used());
  CHECK(holds(value->bytes(), 1));
  rerun = {};
  CHECK_FALSE(value->used());
  CHECK(value->state() == State::unretained);
  CHECK_FALSE(value->on_device());
}

TEST_CASE("a use counts once, wherever it was moved and however often it is ended") {
  const auto value = value_of(at::ones({4}));
  ConsumerHandle first(value, ConsumerHandle::ConsumerKind::backward);
  ConsumerHandle second(std::move(first));
  CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
  ConsumerHandle third(value, ConsumerHandle::ConsumerKind::rerun);
  third = std::move(second);  // what it counted before ends
  third.end();
  third.end();
  CHECK(third.value() == value);  // still to be reached
  { const ConsumerHandle ended = std::move(third); }
  second = {};
  CHECK_FALSE(value->used());
}

TEST_CASE("a use that an exception ends is not counted") {
  const auto value = value_of(at::ones({4}));
  const auto fails = [&] {
    const ConsumerHandle use(value, ConsumerHandle::ConsumerKind::backward);
    throw std::runtime_error("no room");
  };
  CHECK_THROWS_WITH(fails(), "no room");
  CHECK_FALSE(value->used());
}

TEST_CASE("a value that is away comes back once, and its trip ends with its last use") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  bool there = false;
  ConsumerHandle use(value, ConsumerHandle::ConsumerKind::backward);
  const auto offloaded = std::make_shared<Elsewhere>(at::full({4}, 2.0F), there);
  Elsewhere& trip = *offloaded;
  value->start_offload(offloaded);
  CHECK(value->state() == State::offloaded);
  CHECK(holds(value->bytes(), 2));
  CHECK(holds(value->bytes(), 2));
  CHECK(value->state() == State::held);
  CHECK(trip.trips == 1);
  value->before_overwrite();
  CHECK(trip.warnings == 1);
}

TEST_CASE("the last use takes the trip along, also when nobody asked for the value") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  bool there = false;
  {
    const ConsumerHandle use(value, ConsumerHandle::ConsumerKind::backward);
    value->start_offload(std::make_shared<Elsewhere>(tensor, there));
    CHECK(there);
  }
  CHECK_FALSE(there);
  CHECK(value->state() == State::unretained);
}

TEST_CASE("a dropped value is made again, held for its uses, and dropped again") {
  at::Tensor tensor = at::ones({4});
  const auto fill = std::make_shared<Fill>();
  const auto value = std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, fill);
  CHECK(value->place() == plan::TensorPlacement::recompute);
  CHECK(value->state() == State::dropped);
  CHECK(holds(value->bytes(), 1));  // the step holds it still
  tensor.reset();
  {
    const ConsumerHandle use(value, ConsumerHandle::ConsumerKind::backward);
    CHECK(holds(value->bytes(), 7));
    CHECK(holds(value->bytes(), 7));
    CHECK(value->state() == State::held);
    CHECK(fill->runs == 1);
  }
  CHECK(value->state() == State::dropped);
}

TEST_CASE("before an overwrite the bytes are copied for those who run an op again, and for them only") {
  for (const ConsumerHandle::ConsumerKind by :
       {ConsumerHandle::ConsumerKind::backward, ConsumerHandle::ConsumerKind::rerun}) {
    at::Tensor tensor = at::ones({4});
    const auto value = value_of(tensor);
    const ConsumerHandle use(value, by);
    value->hold(tensor.storage());
    value->before_overwrite();
    tensor.fill_(9);
    value->overwritten();
    CHECK(holds(value->bytes(), by == ConsumerHandle::ConsumerKind::rerun ? 1.0F : 9.0F));
  }
}

TEST_CASE("a value crosses when another block than its own wants it") {
  const auto value = value_of(at::ones({4}), 2);
  value->add_consumer_block(2);
  CHECK_FALSE(value->crosses());
  value->add_consumer_block(-1);
  CHECK(value->crosses());
}

}  // namespace
}  // namespace memtune::autograd
