// The values on the device at a moment. A kept value is there from its producer to its last consumer. Other values are
// there while they are resident.
#include "core/record/trace/resident_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "core/record/trace/file.h"
#include "tests/findings/made_up.h"

namespace memtune::resident_values_test {

using namespace memtune;
using findings::MadeUp;
using trace::EventKind;
using trace::held_values;
using trace::ValueId;

namespace {

constexpr int64_t kMiB = MadeUp::kMiB;

int64_t held(const trace::Trace& trace, double ms) {
  int64_t bytes = 0;
  for (const trace::ResidentActivationTotalsOfOp& values : held_values(trace, static_cast<int64_t>(ms * MadeUp::kMs)))
    bytes += values.bytes;
  return bytes / kMiB;
}

MadeUp with_kernels() {
  MadeUp made;
  for (int ms = 0; ms < 20; ++ms) made.kernel(ms, ms + 1);
  return made;
}

}  // namespace

TEST_CASE("a kept value is resident from its producing op to its last use") {
  MadeUp made = with_kernels();
  const ValueId value = made.value("layers.0", 0, "keep", 4 * kMiB);
  made.add(EventKind::save, 2, 2, "", 0, value);
  made.add(EventKind::use, 9, 9, "", 0, value);
  made.add(EventKind::use, 10, 10, "", 0, value);
  CHECK(held(made.trace, 0.9) == 0);
  for (const double ms : {1.0, 2.0, 5.0, 9.5, 10.0}) CHECK_MESSAGE(held(made.trace, ms) == 4, ms);
  CHECK(held(made.trace, 10.1) == 0);
}

TEST_CASE("an offloaded value is resident until its last piece is copied out and from reload to use") {
  MadeUp made = with_kernels();
  const ValueId value = made.value("layers.0", 0, "host", 4 * kMiB);
  made.add(EventKind::save, 2, 2, "", 0, value);
  made.add(EventKind::copy_out, 2, 3, "", 0, value);
  made.add(EventKind::copy_out, 3, 4, "", 0, value);
  made.add(EventKind::save, 5, 5, "", 0, value);  // saved by a later op, but it is already offloaded
  made.add(EventKind::copy_in, 8, 9, "", 0, value);
  made.add(EventKind::use, 12, 12, "", 0, value);
  for (const double ms : {2.0, 3.5, 8.5, 12.0}) CHECK_MESSAGE(held(made.trace, ms) == 4, ms);
  for (const double ms : {4.5, 5.5, 7.9, 12.5}) CHECK_MESSAGE(held(made.trace, ms) == 0, ms);
}

TEST_CASE("a recomputed value is resident only between its recomputation and a later use") {
  MadeUp made = with_kernels();
  const ValueId early = made.value("layers.0", 0, "recompute", 4 * kMiB),
                late = made.value("layers.1", 1, "recompute", kMiB);
  made.add(EventKind::save, 2, 2, "", 0, early);
  made.add(EventKind::kernel, 8, 9, "", 0, early);
  made.add(EventKind::use, 12, 12, "", 0, early);
  made.add(EventKind::use, 8, 8, "", 0, late);
  made.add(EventKind::kernel, 8, 9, "", 0, late);
  CHECK(held(made.trace, 3) == 0);
  CHECK(held(made.trace, 9) == 4);
  CHECK(held(made.trace, 13) == 0);
}

TEST_CASE("values of one op in numbered blocks are one group and the largest group comes first") {
  MadeUp made = with_kernels();
  for (int block = 0; block < 3; ++block) {
    const std::string region = "layers." + std::to_string(block);
    for (const auto& [op, mib] : {std::pair<const char*, int64_t>(".mlp/aten::silu", 2), {"/aten::add", 1}}) {
      made.trace.values.push_back({region + op, region, "keep", "", mib * kMiB, block});
      made.add(EventKind::save, 1 + block, 1 + block, "", 0, ValueId(made.trace.values.size() - 1));
      made.add(EventKind::use, 15, 15, "", 0, ValueId(made.trace.values.size() - 1));
    }
  }
  const auto values = held_values(made.trace, 10 * MadeUp::kMs);
  REQUIRE(values.size() == 2);
  CHECK(values[0].name == "layers.*.mlp silu");
  CHECK(values[0].count == 3);
  CHECK(values[0].bytes == 6 * kMiB);
  CHECK(values[1].name == "layers.* add");
}

TEST_CASE("resident values of a recorded sweep never exceed their owners and reach them for none") {
  for (const char* trial : {"1-none", "5-offload-stream", "6-dear-13"}) {
    CAPTURE(trial);
    const trace::Trace trace =
        trace::read_trace(std::string(MEMTUNE_H200_RUN) + "/trials/" + trial + "/trace.mttrace").trace;
    const auto peak = std::ranges::max_element(trace.memory, {}, &trace::AllocatedBytesSample::allocated_bytes);
    for (const int64_t time_ns : {peak->time_ns, int64_t{120'000'000}, int64_t{200'000'000}}) {
      CAPTURE(time_ns);
      std::vector<int64_t> owned(trace.owners.size());
      for (const trace::OwnerMemorySample& sample : trace.owned)
        if (sample.time_ns <= time_ns) owned[sample.owner] = sample.bytes;
      int64_t there = 0, told = 0;
      for (size_t i = 0; i < owned.size(); ++i) {
        const trace::MemoryOwnerKind kind = trace.owners[i].kind;
        const bool values = kind == trace::MemoryOwnerKind::block || kind == trace::MemoryOwnerKind::outside ||
                            kind == trace::MemoryOwnerKind::prefetched;
        if (values) there += owned[i];
      }
      for (const trace::ResidentActivationTotalsOfOp& values : held_values(trace, time_ns)) told += values.bytes;
      CHECK(told <= there);
      CHECK(2 * told > there);
      if (trial == std::string("1-none") && time_ns == peak->time_ns) CHECK(told > there / 1000 * 999);
    }
  }
}

TEST_CASE("a value in very many pieces takes linear time") {
  MadeUp made = with_kernels();
  const ValueId value = made.value("layers.0", 0, "host", 4 * kMiB);
  for (int piece = 0; piece < 300'000; ++piece) made.add(EventKind::copy_in, 5, 6, "", 0, value);
  made.add(EventKind::use, 8, 8, "", 0, value);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(held(made.trace, 7) == 4);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

}  // namespace memtune::resident_values_test
