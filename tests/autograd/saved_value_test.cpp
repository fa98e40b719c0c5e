// A value is known by its storage, not by its address: addresses come back. What it holds goes with its last use,
// whatever state it is in and however the use ends.
#include "core/engine/autograd/saved_value.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <stdexcept>

#include "core/base/error.h"

namespace memtune::autograd {
namespace {

using State = SavedValue::State;

ValuePtr value_of(const at::Tensor& tensor, int block = -1) {
  return std::make_shared<SavedValue>(tensor.storage(), SavedValue::Origin{3, 0, block}, plan::Place::keep);
}

bool holds(const at::Storage& storage, float content) {
  return storage && static_cast<const float*>(storage.data())[0] == content;
}

// Somewhere else; says when it is gone.
struct Elsewhere final : Away {
  Elsewhere(at::Tensor bytes, bool& there) : bytes(std::move(bytes)), there(there) { there = true; }
  ~Elsewhere() override { there = false; }
  at::Storage bring_back() override {
    ++trips;
    return bytes.storage();
  }
  void before_overwrite() override { ++warnings; }
  at::Tensor bytes;
  bool& there;
  int trips = 0, warnings = 0;
};

struct Fill final : Maker {
  at::Storage make(SavedValue& value) override {
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
  CHECK(value->alive().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl());
  tensor.reset();
  CHECK_FALSE(value->alive());
  CHECK_THROWS_WITH_AS(value->bytes(), doctest::Contains("cannot be made again"), Error);
}

TEST_CASE("a storage that was written into is not the value's any more") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  value->overwritten();
  CHECK_FALSE(value->alive());
}

TEST_CASE("what is held goes with the last use, not before") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  CHECK(value->state() == State::passing);
  Use saved(value, Use::By::backward);
  Use rerun(value, Use::By::rerun);
  value->hold(tensor.storage());
  tensor.reset();
  saved.end();
  CHECK(value->used());
  CHECK(holds(value->bytes(), 1));
  rerun = {};
  CHECK_FALSE(value->used());
  CHECK(value->state() == State::passing);
  CHECK_FALSE(value->on_device());
}

TEST_CASE("a use counts once, wherever it was moved and however often it is ended") {
  const auto value = value_of(at::ones({4}));
  Use first(value, Use::By::backward);
  Use second(std::move(first));
  CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
  Use third(value, Use::By::rerun);
  third = std::move(second);  // what it counted before ends
  third.end();
  third.end();
  CHECK(third.value() == value);  // still to be reached
  { const Use ended = std::move(third); }
  second = {};
  CHECK_FALSE(value->used());
}

TEST_CASE("a use that an exception ends is not counted") {
  const auto value = value_of(at::ones({4}));
  const auto fails = [&] {
    const Use use(value, Use::By::backward);
    throw std::runtime_error("no room");
  };
  CHECK_THROWS_WITH(fails(), "no room");
  CHECK_FALSE(value->used());
}

TEST_CASE("a value that is away comes back once, and its trip ends with its last use") {
  at::Tensor tensor = at::ones({4});
  const auto value = value_of(tensor);
  bool there = false;
  Use use(value, Use::By::backward);
  const auto away = std::make_shared<Elsewhere>(at::full({4}, 2.0F), there);
  Elsewhere& trip = *away;
  value->send(away);
  CHECK(value->state() == State::away);
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
    const Use use(value, Use::By::backward);
    value->send(std::make_shared<Elsewhere>(tensor, there));
    CHECK(there);
  }
  CHECK_FALSE(there);
  CHECK(value->state() == State::passing);
}

TEST_CASE("a dropped value is made again, held for its uses, and dropped again") {
  at::Tensor tensor = at::ones({4});
  const auto fill = std::make_shared<Fill>();
  const auto value = std::make_shared<SavedValue>(tensor.storage(), SavedValue::Origin{}, fill);
  CHECK(value->place() == plan::Place::recompute);
  CHECK(value->state() == State::dropped);
  CHECK(holds(value->bytes(), 1));  // the step holds it still
  tensor.reset();
  {
    const Use use(value, Use::By::backward);
    CHECK(holds(value->bytes(), 7));
    CHECK(holds(value->bytes(), 7));
    CHECK(value->state() == State::held);
    CHECK(fill->runs == 1);
  }
  CHECK(value->state() == State::dropped);
}

TEST_CASE("before an overwrite the bytes are copied for those who run an op again, and for them only") {
  for (const Use::By by : {Use::By::backward, Use::By::rerun}) {
    at::Tensor tensor = at::ones({4});
    const auto value = value_of(tensor);
    const Use use(value, by);
    value->hold(tensor.storage());
    value->before_overwrite();
    tensor.fill_(9);
    value->overwritten();
    CHECK(holds(value->bytes(), by == Use::By::rerun ? 1.0F : 9.0F));
  }
}

TEST_CASE("a value crosses when another block than its own wants it") {
  const auto value = value_of(at::ones({4}), 2);
  value->wanted_in(2);
  CHECK_FALSE(value->crosses());
  value->wanted_in(-1);
  CHECK(value->crosses());
}

}  // namespace
}  // namespace memtune::autograd
