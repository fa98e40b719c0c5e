#include "gui/model/kernel_table.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/gui/made_up_run.h"
namespace memtune::tests::kernel_table_test {
namespace {

using trace::EventKind;
using trace::Pass;
using trace::TraceRegionKey;

constexpr int64_t kMs = 1'000'000;

// Two blocks and a head; a kernel of the second block ends in the head.
trace::Trace two_blocks() {
  findings::MadeUp made;
  made.step(0, 100);
  made.region(0, 20, TraceRegionKey::of_block(0), "layers.0");
  made.region(20, 40, TraceRegionKey::of_block(1), "layers.1");
  made.region(40, 60, {trace::TraceRegionLevel::head, Pass::forward}, "head");
  made.add(EventKind::kernel, 0, 10, "matmul");
  made.add(EventKind::kernel, 10, 12, "add");
  made.add(EventKind::kernel, 20, 30, "matmul");
  made.add(EventKind::kernel, 40, 45, "add");
  made.add(EventKind::kernel, 70, 71, "adam");
  made.add(EventKind::copy_out, 0, 90, "copy", 1);
  return made.trace;
}

TEST_CASE("kernels are summed by name and by module and the longest come first") {
  const gui::KernelTable table = gui::kernels_between(two_blocks(), {0, 100 * kMs});
  REQUIRE(table.kernels.size() == 3);
  CHECK(table.total_ns == 28 * kMs);
  CHECK(table.kernels[0].name == "matmul");
  CHECK(table.kernels[0].count == 2);
  CHECK(table.kernels[0].ns == 20 * kMs);
  CHECK(table.kernels[0].module == "layers.*");
  CHECK(table.kernels[1].name == "add");
  CHECK(table.kernels[1].module == "several");
  REQUIRE(table.modules.size() == 3);
  CHECK(table.modules[0].name == "layers.*");
  CHECK(table.modules[0].ns == 22 * kMs);
  CHECK(table.modules[1].name == "head");
  CHECK(table.modules[2].name == "outside of modules");
}

TEST_CASE("only the part of a kernel within the range counts") {
  const gui::KernelTable table = gui::kernels_between(two_blocks(), {8 * kMs, 11 * kMs});
  REQUIRE(table.kernels.size() == 2);
  CHECK(table.kernels[0].name == "matmul");
  CHECK(table.kernels[0].ns == 2 * kMs);
  CHECK(table.kernels[1].ns == 1 * kMs);
  CHECK(gui::kernels_between(two_blocks(), {95 * kMs, 99 * kMs}).kernels.empty());
}

TEST_CASE("a selected step or block has its kernels summed and marks come first") {
  const trace::Trace trace = two_blocks();
  gui::ViewState view;
  CHECK_FALSE(gui::chosen_range(view, trace).has_value());
  const auto block = std::ranges::find(trace.events, 20 * kMs, &trace::TraceEvent::start_ns);
  REQUIRE(block->kind == EventKind::region);
  view.event = static_cast<size_t>(block - trace.events.begin());
  REQUIRE(gui::chosen_range(view, trace).has_value());
  CHECK(gui::chosen_range(view, trace)->start == 20 * kMs);
  CHECK(gui::kernels_between(trace, *gui::chosen_range(view, trace)).total_ns == 10 * kMs);
  view.marks = {9 * kMs, 3 * kMs};
  CHECK(gui::chosen_range(view, trace)->start == 3 * kMs);
  CHECK(gui::chosen_range(view, trace)->end == 9 * kMs);
  const auto kernel = std::ranges::find(trace.events, EventKind::kernel, &trace::TraceEvent::kind);
  view.marks.clear();
  view.event = static_cast<size_t>(kernel - trace.events.begin());
  CHECK_FALSE(gui::chosen_range(view, trace).has_value());
}

}  // namespace
}  // namespace memtune::tests::kernel_table_test
