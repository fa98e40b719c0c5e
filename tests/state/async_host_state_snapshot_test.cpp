// Why: copies, updates and the writer of the image run at their own pace. Each waits only for what it needs.
#include "core/engine/state/async_host_state_snapshot.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

#include "core/engine/state/write.h"
#include "tests/state/support.h"
#include "tests/support/cpu_emulated_device.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/queue_device.h"
#include "tests/support/run_program.h"
namespace memtune::state::async_snapshot_test {
namespace {

using device::StreamKind;
using safetensors::Dtype;
using tests::QueueDevice;

TensorToSave part(const std::string& name, Dtype dtype, const std::string& bytes) {
  TensorToSave part;
  part.spec = {name, dtype, {static_cast<int64_t>(bytes.size()) / safetensors::bytes_of(dtype)}};
  part.data = bytes.data();
  part.memory = bytes.data();
  part.on_device = true;
  return part;
}

TEST_CASE("parts are copied in order of the list and bytes are available once all parts among them are copied") {
  QueueDevice device(QueueDevice::Compute::caller);
  const std::string first(40 << 20, 'a'), second(40 << 20, 'b');
  const std::vector<TensorToSave> parts{part("leaves first", Dtype::u8, first),
                                        part("stands first", Dtype::f64, second)};
  const auto image = device.allocate_host(bytes_of(parts), true);
  AsyncHostStateSnapshot snapshot(device, 1, parts, *image);
  snapshot.send();
  snapshot.await_bytes(snapshot.bytes());
  CHECK(std::string_view(snapshot.data(), second.size()) == second);
  CHECK(std::string_view(snapshot.data() + second.size(), first.size()) == first);
}

TEST_CASE("a snapshot with a byte limit copies whole portions and the rest on a later call") {
  QueueDevice device(QueueDevice::Compute::caller);
  const std::string first(40 << 20, 'a'), second(40 << 20, 'b');
  const std::vector<TensorToSave> parts{part("first", Dtype::u8, first), part("second", Dtype::u8, second)};
  const auto image = device.allocate_host(bytes_of(parts), true);
  AsyncHostStateSnapshot snapshot(device, 1, parts, *image);
  snapshot.send(39 << 20);
  CHECK(device.idle(StreamKind::out));
  snapshot.send(79 << 20);
  CHECK_FALSE(device.idle(StreamKind::out));
  CHECK_FALSE(snapshot.sent());
  snapshot.await_bytes(40 << 20);
  CHECK(std::string_view(snapshot.data(), first.size()) == first);
  snapshot.send();
  CHECK(snapshot.sent());
  snapshot.await_bytes(snapshot.bytes());
  CHECK(std::string_view(snapshot.data() + first.size(), second.size()) == second);
}

TEST_CASE("an update waits for the copy of its own portion and for no later one") {
  QueueDevice device(QueueDevice::Compute::caller);
  const std::string first(40 << 20, 'a'), second(40 << 20, 'b');
  const std::vector<TensorToSave> parts{part("first", Dtype::u8, first), part("second", Dtype::u8, second)};
  const auto image = device.allocate_host(bytes_of(parts), true);
  AsyncHostStateSnapshot snapshot(device, 1, parts, *image);
  snapshot.send();
  const size_t turn = snapshot.pending(first.data());
  CHECK(turn > 0);
  CHECK(turn < snapshot.pending(second.data()));
  CHECK(snapshot.pending(&turn) == 0);
  snapshot.left(turn)->synchronize();
  CHECK(snapshot.pending(first.data()) == 0);
  CHECK(snapshot.pending(second.data()) > 0);
}

TEST_CASE("a copy contains the results of the kernels queued before it") {
  for (const bool waiting : {false, true}) {
    QueueDevice device(QueueDevice::Compute::queued);
    std::string weight(5000, 'a');
    device.enqueue(StreamKind::compute, [&] { weight.assign(5000, 'b'); });
    std::vector<TensorToSave> parts{part("weight", Dtype::u8, weight)};
    if (waiting) {
      test::ScratchFolder scratch;
      SavedStatesFolder folder(scratch.path);
      folder.make();
      const auto buffer = device.allocate_host(kBufferBytes, true);
      write(device, 1, parts, *buffer, folder);
      CHECK(test::load(folder).contents.at("weight") == weight);
    } else {
      const auto image = device.allocate_host(bytes_of(parts), true);
      AsyncHostStateSnapshot snapshot(device, 1, parts, *image);
      snapshot.wait();
      CHECK(std::string_view(snapshot.data(), weight.size()) == weight);
    }
    CHECK(weight[0] == 'b');
  }
}

TEST_CASE("a buffer smaller than the state is reused once the disk has its content") {
  std::string weight(70 << 20, ' ');
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<char>((i >> 16) % 251);
  test::ScratchFolder scratch;
  test::FaultyDisk disk;
  disk.on_submit = [](const auto&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  SavedStatesFolder folder(scratch.path, disk);
  folder.make();
  const auto buffer = tests::cpu_device().allocate_host(16 << 20, true);
  write(tests::cpu_device(), 1, {part("weight", Dtype::u8, weight)}, *buffer, folder);
  CHECK((test::load(folder).contents.at("weight") == weight));
}

}  // namespace
}  // namespace memtune::state::async_snapshot_test
