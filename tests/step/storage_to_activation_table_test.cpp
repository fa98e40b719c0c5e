// Tests which tensors have a saved storage, which op made it and which storages hold memory.
#include "core/engine/step/storage_to_activation_table.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
namespace memtune::step::saved_storage_table_test {
namespace {

using autograd::SavedStorage;

at::Tensor floats(int64_t count) { return at::ones({count}); }

autograd::SavedStoragePtr add(StorageToActivationTable& values, const at::Tensor& tensor, int op) {
  const auto value =
      std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{op, 0, -1}, plan::TensorPlacement::keep);
  values.add(StorageToActivationTable::storage_of(tensor), value);
  return value;
}

std::vector<int64_t> held(const StorageToActivationTable& values) {
  std::vector<int64_t> bytes;
  values.visit_held([&](const SavedStorage&, int64_t count) { bytes.push_back(count); });
  return bytes;
}

TEST_CASE("parameters and their views and undefined or sparse tensors have no saved storage") {
  const at::Tensor parameter = floats(8), other = floats(8);
  const StorageToActivationTable values(c10::kCPU, {parameter});
  CHECK_FALSE(values.covers(parameter));
  CHECK_FALSE(values.covers(parameter.view({2, 4}).t()));
  CHECK_FALSE(values.covers(at::Tensor()));
  CHECK_FALSE(values.covers(other.to_sparse()));
  CHECK(values.covers(other.view({2, 4}).t()));
}

TEST_CASE("all views of a storage are one saved storage and tensors from outside stay") {
  StorageToActivationTable values(c10::kCPU, {});
  const at::Tensor tensor = floats(8);
  CHECK_FALSE(values.find(StorageToActivationTable::storage_of(tensor)));
  const auto value = values.find_or_add(tensor);
  CHECK(value->key().op == -1);
  CHECK(value->place() == plan::TensorPlacement::keep);
  CHECK(values.find_or_add(tensor.view({2, 4}).narrow(0, 1, 1)) == value);
}

TEST_CASE("a storage that was overwritten has another saved storage afterwards") {
  StorageToActivationTable values(c10::kCPU, {});
  const at::Tensor tensor = floats(8);
  const auto before = add(values, tensor, 1);
  values.overwritten(StorageToActivationTable::storage_of(tensor));
  CHECK_FALSE(before->live_storage());
  CHECK_FALSE(values.has(StorageToActivationTable::storage_of(tensor)));
  CHECK(add(values, tensor, 2)->live_storage());
}

TEST_CASE("a reused address does not find the previous saved storage") {
  StorageToActivationTable values(c10::kCPU, {});
  for (int i = 0; i < 100; ++i) {
    const at::Tensor tensor = floats(8);
    CHECK_FALSE(values.has(StorageToActivationTable::storage_of(tensor)));
    add(values, tensor, i);
  }
}

TEST_CASE("the end of forward leaves only storages with consumers and the next step leaves none") {
  StorageToActivationTable values(c10::kCPU, {});
  const at::Tensor used = floats(8), unused = floats(4);
  autograd::SavedStorageConsumerReference use(add(values, used, 1),
                                              autograd::SavedStorageConsumerReference::ConsumerKind::backward);
  add(values, unused, 2);
  CHECK(held(values) == std::vector<int64_t>{32, 16});
  values.end_forward();
  CHECK(held(values) == std::vector<int64_t>{32});
  values.begin_step();
  CHECK(held(values).empty());
}

TEST_CASE("a storage is counted once and not if it comes from outside") {
  StorageToActivationTable values(c10::kCPU, {});
  const at::Tensor tensor = floats(8), outside = floats(8);
  const auto first = add(values, tensor, 1);
  first->hold(tensor.storage());
  add(values, tensor, 2);
  values.find_or_add(outside);
  add(values, outside, -1);
  CHECK(held(values) == std::vector<int64_t>{32});
}

TEST_CASE("the largest holders are listed and the same op of all blocks counts as one") {
  plan::ProgramFacts facts;
  for (const char* region : {"layers.0.w1", "layers.1.w1", "norm"}) {
    facts.ops.emplace_back();
    facts.ops.back().region = region;
    facts.ops.back().name = "aten::linear";
  }
  StorageToActivationTable values(c10::kCPU, {});
  const at::Tensor a = floats(8), b = floats(8), c = floats(9);
  add(values, a, 0);
  add(values, b, 1);
  add(values, c, 2);
  const auto holders = largest_holders(values, facts, 2);
  REQUIRE(holders.size() == 2);
  CHECK(holders[0].name == "layers.*.w1/aten::linear");
  CHECK(holders[0].bytes == 64);
  CHECK(holders[1].bytes == 36);
  CHECK(largest_holders(values, facts, 1).size() == 1);
}

}  // namespace
}  // namespace memtune::step::saved_storage_table_test
