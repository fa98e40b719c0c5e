// The work space of ops is learned from one step, and from no other.
#include "core/engine/step/learned_forward_op_memory_peaks.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/queue_device.h"
namespace memtune::step::op_memory_peaks_test {
namespace {

using tests::QueueDevice;

struct Quiet final : QueueDevice {
  Quiet() : QueueDevice(Compute::caller) { use = {}; }
  void reset_peak() override { use.peak_allocated = use.allocated; }
};

// Runs an op that starts with `before` allocated bytes and peaks at `most`.
void run(Quiet& device, LearnedForwardOpMemoryPeaks& memory, int op, int64_t before, int64_t most) {
  device.use.allocated = before;
  device.use.peak_allocated = std::max(device.use.peak_allocated, before);
  memory.before_op();
  device.use.peak_allocated = most;
  memory.after_op(op);
}

TEST_CASE("an op's work space is its highest peak above the allocated bytes before it") {
  Quiet device;
  LearnedForwardOpMemoryPeaks memory(device, 2);
  memory.begin_learning();
  run(device, memory, 0, 100, 150);
  run(device, memory, 1, 100, 130);
  run(device, memory, 1, 200, 220);
  memory.end_learning();
  CHECK(memory.bytes(0) == 50);
  CHECK(memory.bytes(1) == 30);
}

TEST_CASE("memory freed while an op runs does not reduce its work space") {
  Quiet device;
  LearnedForwardOpMemoryPeaks memory(device, 1);
  memory.begin_learning();
  device.use = {.allocated = 500, .peak_allocated = 500};
  memory.before_op();
  device.use = {.allocated = 510, .peak_allocated = 530};  // 30 of the op itself for a while
  memory.before_leaving();
  device.use.allocated = 110;  // 400 of others were freed; its own 10 stay
  memory.after_leaving();
  device.use = {.allocated = 140, .peak_allocated = 160};  // 60 of the op itself
  memory.after_op(0);
  memory.end_forward();
  CHECK(memory.bytes(0) == 60);
  CHECK(memory.forward_peak() == 530);
}

TEST_CASE("memory freed between ops counts for no op") {
  Quiet device;
  LearnedForwardOpMemoryPeaks memory(device, 1);
  memory.begin_learning();
  run(device, memory, 0, 100, 150);
  device.use = {.allocated = 100, .peak_allocated = 400};
  memory.before_leaving();
  CHECK(device.use.peak_allocated == 400);  // the peak is not reset yet
  device.use.allocated = 20;
  memory.after_leaving();
  run(device, memory, 0, 20, 60);
  CHECK(memory.bytes(0) == 50);
  CHECK(memory.forward_peak() == 400);
}

TEST_CASE("the forward's peak is the largest of all ops and of its end") {
  Quiet device;
  LearnedForwardOpMemoryPeaks memory(device, 1);
  memory.begin_learning();
  run(device, memory, 0, 100, 900);
  run(device, memory, 0, 100, 300);
  memory.end_forward();
  CHECK(memory.forward_peak() == 900);
}

TEST_CASE("memory of earlier steps does not count for the learned step") {
  Quiet device;
  device.use = {.allocated = 100, .peak_allocated = 5000};
  LearnedForwardOpMemoryPeaks memory(device, 1);
  memory.begin_learning();
  run(device, memory, 0, 100, 300);
  memory.end_forward();
  CHECK(memory.forward_peak() == 300);
}

TEST_CASE("without learning nothing is measured") {
  Quiet device;
  LearnedForwardOpMemoryPeaks memory(device, 1);
  run(device, memory, 0, 100, 150);
  memory.end_forward();
  CHECK(memory.bytes(0) == 0);
  CHECK(memory.forward_peak() == 0);
}

}  // namespace
}  // namespace memtune::step::op_memory_peaks_test
