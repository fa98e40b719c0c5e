// SavedStorage is identified by its storage, not by its address: addresses are reused. It frees its bytes with its last
// consumer, in every state and however the consumer ends.
#include "core/engine/autograd/saved_storage.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <stdexcept>

#include "core/base/error.h"
namespace memtune::autograd::saved_storage_test {
namespace {

using State = SavedStorage::State;

SavedStoragePtr value_of(const at::Tensor& tensor, int block = -1) {
  return std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{3, 0, block},
                                        plan::TensorPlacement::keep);
}

bool holds(const at::Storage& storage, float content) {
  return storage && static_cast<const float*>(storage.data())[0] == content;
}

// A copy outside the device. It clears `there` when it is destroyed.
struct Elsewhere final : OffloadedStorageHandle {
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

struct Fill final : SavedStorageRecomputer {
  at::Storage make(SavedStorage& value) override {
    ++runs;
    value.hold(at::full({4}, 7.0F).storage());
    return value.on_device();
  }
  int runs = 0;
};

TEST_CASE("a saved storage finds its live storage and never a later one at the same address") {
  at::Tensor tensor = at::ones({256});
  const auto value = value_of(tensor);
  CHECK(value->size_bytes() == 1024);
  CHECK(value->live_storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl());
  tensor.reset();
  CHECK_FALSE(value->live_storage());
  CHECK_THROWS_WITH_AS(value->bytes(), doctest::Contains("cannot be recomputed"), Error);
}

TEST_CASE("a saved storage gives up its storage when that is overwritten") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  value->overwritten();
  CHECK_FALSE(value->live_storage());
}

TEST_CASE("held bytes are freed with the last consumer and not before") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  CHECK(value->state() == State::unretained);
  SavedStorageConsumerReference saved(value, SavedStorageConsumerReference::ConsumerKind::backward);
  SavedStorageConsumerReference rerun(value, SavedStorageConsumerReference::ConsumerKind::rerun);
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

TEST_CASE("a consumer handle counts once however often it is moved or ended") {
  const auto value = value_of(at::ones({4}));
  SavedStorageConsumerReference first(value, SavedStorageConsumerReference::ConsumerKind::backward);
  SavedStorageConsumerReference second(std::move(first));
  CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
  SavedStorageConsumerReference third(value, SavedStorageConsumerReference::ConsumerKind::rerun);
  third = std::move(second);  // the consumer that it was before ends
  third.end();
  third.end();
  CHECK(third.value() == value);  // still accessible
  { const SavedStorageConsumerReference ended = std::move(third); }
  second = {};
  CHECK_FALSE(value->used());
}

TEST_CASE("a consumer handle that an exception destroys is not counted") {
  const auto value = value_of(at::ones({4}));
  const auto fails = [&] {
    const SavedStorageConsumerReference use(value, SavedStorageConsumerReference::ConsumerKind::backward);
    throw std::runtime_error("no room");
  };
  CHECK_THROWS_WITH(fails(), "no room");
  CHECK_FALSE(value->used());
}

TEST_CASE("an offloaded storage is reloaded once and its copy is notified before an overwrite") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  bool there = false;
  SavedStorageConsumerReference use(value, SavedStorageConsumerReference::ConsumerKind::backward);
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

TEST_CASE("the last consumer frees the offloaded copy even if it was never reloaded") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  bool there = false;
  {
    const SavedStorageConsumerReference use(value, SavedStorageConsumerReference::ConsumerKind::backward);
    value->start_offload(std::make_shared<Elsewhere>(tensor, there));
    CHECK(there);
  }
  CHECK_FALSE(there);
  CHECK(value->state() == State::unretained);
}

TEST_CASE("a dropped storage is recomputed and held for its consumers and dropped again") {
  at::Tensor tensor = at::ones({4});
  const auto fill = std::make_shared<Fill>();
  const auto value = std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, fill);
  CHECK(value->place() == plan::TensorPlacement::recompute);
  CHECK(value->state() == State::dropped);
  CHECK(holds(value->bytes(), 1));  // the step still holds it
  tensor.reset();
  {
    const SavedStorageConsumerReference use(value, SavedStorageConsumerReference::ConsumerKind::backward);
    CHECK(holds(value->bytes(), 7));
    CHECK(holds(value->bytes(), 7));
    CHECK(value->state() == State::held);
    CHECK(fill->runs == 1);
  }
  CHECK(value->state() == State::dropped);
}

TEST_CASE("before an overwrite bytes are copied for recomputation but not for backward") {
  for (const SavedStorageConsumerReference::ConsumerKind by :
       {SavedStorageConsumerReference::ConsumerKind::backward, SavedStorageConsumerReference::ConsumerKind::rerun}) {
    at::Tensor tensor = at::ones({4});
    const auto value = value_of(tensor);
    const SavedStorageConsumerReference use(value, by);
    value->hold(tensor.storage());
    value->before_overwrite();
    tensor.fill_(9);
    value->overwritten();
    CHECK(holds(value->bytes(), by == SavedStorageConsumerReference::ConsumerKind::rerun ? 1.0F : 9.0F));
  }
}

TEST_CASE("a saved storage crosses blocks if another block consumes it") {
  const auto value = value_of(at::ones({4}), 2);
  value->add_consumer_block(2);
  CHECK_FALSE(value->crosses());
  value->add_consumer_block(-1);
  CHECK(value->crosses());
}

}  // namespace
}  // namespace memtune::autograd::saved_storage_test
