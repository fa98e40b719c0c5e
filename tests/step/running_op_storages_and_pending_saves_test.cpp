// Tests which storages the running op reads and writes, and which of its saves wait for its return.
#include "core/engine/step/running_op_storages_and_pending_saves.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
namespace memtune::step::running_op_test {
namespace {

struct Unpacker final : SavedTensorHandle::Unpacker {
  explicit Unpacker(RunningOpStoragesAndPendingSaves& running) : running(running) {}
  at::Tensor unpack(SavedTensorHandle& saved) override { return saved.tensor(); }
  void release_began(const SavedTensorHandle& saved) noexcept override { running.forget(saved); }
  void release_ended() noexcept override {}
  RunningOpStoragesAndPendingSaves& running;
};

program::Op op_that_writes(std::vector<bool> writes) {
  program::Op op;
  op.writes = std::move(writes);
  return op;
}

RunningOpStoragesAndPendingSaves::Storage storage_of(const at::Tensor& tensor) {
  return StorageToActivationTable::storage_of(tensor);
}

TEST_CASE("an op reads the storages of its arguments and of lists in them") {
  const at::Tensor a = at::ones({4}), b = at::ones({4}), c = at::ones({4}), other = at::ones({4});
  const program::Op op;
  const StorageToActivationTable values(c10::kCPU, {});
  RunningOpStoragesAndPendingSaves running;
  CHECK_FALSE(running);
  running.begin(op, {a.view({2, 2}), c10::List<at::Tensor>({b, c}), 3}, values, /*autocast=*/false);
  CHECK(running);
  for (const at::Tensor& tensor : {a, b, c}) CHECK(running.reads(storage_of(tensor)));
  CHECK_FALSE(running.reads(storage_of(other)));
  running.end();
  CHECK_FALSE(running);
  CHECK_FALSE(running.reads(storage_of(a)));
}

TEST_CASE("storages that the schema marks as written have their version and saved tensor before the op") {
  const at::Tensor a = at::ones({4}), b = at::ones({4});
  const program::Op op = op_that_writes({false, true});
  StorageToActivationTable values(c10::kCPU, {});
  const auto value = std::make_shared<autograd::SavedStorage>(b.storage(), autograd::SavedStorage::Origin{7, 0, -1},
                                                              plan::TensorPlacement::keep);
  values.add(storage_of(b), value);
  b.add_(1);
  RunningOpStoragesAndPendingSaves running;
  running.begin(op, {a, b}, values, false);
  CHECK_FALSE(running.writes(storage_of(a)));
  REQUIRE(running.writes(storage_of(b)));
  CHECK(running.writes(storage_of(b))->version == b._version());
  CHECK(running.writes(storage_of(b))->value == value);
  CHECK_FALSE(running.writes_outside());
}

TEST_CASE("a write to a tensor from outside the step is noticed and a write to a parameter is ignored") {
  const at::Tensor outside = at::ones({4}), parameter = at::ones({4});
  const program::Op op = op_that_writes({true});
  const StorageToActivationTable values(c10::kCPU, {parameter});
  RunningOpStoragesAndPendingSaves running;
  running.begin(op, {outside}, values, false);
  CHECK(running.writes_outside());
  running.begin(op, {parameter}, values, false);
  CHECK(running.written().empty());
}

TEST_CASE("a save that waits for the op is returned once and never after its death") {
  const at::Tensor a = at::ones({4}), b = at::ones({4});
  const program::Op op;
  const StorageToActivationTable values(c10::kCPU, {});
  RunningOpStoragesAndPendingSaves running;
  Unpacker unpacker(running);
  running.begin(op, {}, values, false);
  SavedTensorHandle stays(unpacker, a, 0, running.next_save());
  running.wait_for_end(stays, a);
  {
    SavedTensorHandle dies(unpacker, b, 0, running.next_save());
    running.wait_for_end(dies, b);
  }
  CHECK(running.saves() == 2);
  const auto waiting = running.take_waiting();
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].saved == &stays);
  CHECK(waiting[0].storage == storage_of(a));
  CHECK(running.take_waiting().empty());
}

}  // namespace
}  // namespace memtune::step::running_op_test
