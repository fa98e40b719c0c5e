// Tests with a recording from a real GPU, because synthetic traces only contain what their author expects.
// tests/data/h200 documents its source.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/answer/findings/findings.h"
#include "gui/model/compare_model.h"
#include "gui/model/plan_model.h"
#include "gui/model/value_lifetime.h"
#include "gui/pane/memory_track.h"
#include "tests/gui/screen.h"

namespace memtune::h200_test {

using namespace memtune;

namespace {

struct Recorded {
  explicit Recorded(const std::string& name) {
    run.add(MEMTUNE_H200_RUN);
    trial = &run.trials[run.find_trial(name)];
    loaded = &trial->load();
  }
  gui::Run run;
  const gui::Trial* trial;
  const gui::LoadedTrace* loaded;
};

std::string stages(const trace::Trace& trace, const gui::ValueLifetime& lifetime) {
  std::string text;
  for (const uint32_t event : lifetime) text += gui::stage_name(trace.events[event].kind) + "; ";
  return text;
}

}  // namespace

TEST_CASE("a recorded sweep opens completely with its recommendation") {
  const Recorded recorded("dear-13");
  CHECK(recorded.run.trials.size() == 6);
  CHECK(recorded.run.trials[recorded.run.first_trial()].label() == "dear-13");
  for (const char* name : {"none", "dear-13", "offload:stream"}) {
    const gui::LoadedTrace& loaded = recorded.run.trials[recorded.run.find_trial(name)].load();
    CHECK(loaded.problem == "");
    CHECK(loaded.trace.events.size() > 2000);
    CHECK(loaded.trace.lost_records == 0);
    CHECK(std::ranges::count(loaded.trace.values, "attention made it: slow to make again",
                             &trace::TracedActivationPlacement::reason) > 0);
  }
}

TEST_CASE("the budget of a recorded sweep is in its timeline and in its plot") {
  const Recorded recorded("dear-13");
  CHECK(recorded.loaded->trace.budget_bytes == 27LL << 30);
  CHECK(gui::make_scatter(recorded.run).budgets == std::vector<double>{27});
}

TEST_CASE("every offloaded activation is copied out and then in and used after it was saved") {
  const Recorded recorded("dear-13");
  const trace::Trace& trace = recorded.loaded->trace;
  int moved = 0, saved = 0;
  for (size_t value = 0; value < trace.values.size(); ++value) {
    if (trace.values[value].placement != "host") continue;
    const auto lifetimes = gui::value_lifetimes(trace, recorded.loaded->timeline, trace::ValueId(value));
    REQUIRE(lifetimes.size() == 1);
    const std::string text = stages(trace, lifetimes[0]);
    CAPTURE(trace.values[value].name);
    CAPTURE(text);
    const size_t out = text.find("copied out; "), in = text.find("copied in; "), use = text.find("used; ");
    CHECK(out < in);
    CHECK(in != std::string::npos);
    ++moved;
    if (text.find("saved; ") == std::string::npos) continue;  // not saved by autograd, but recomputation needs it
    CHECK(text.find("saved; ") < in);
    CHECK(in < use);
    CHECK(use != std::string::npos);
    ++saved;
  }
  CHECK(moved == 66);  // five activations of each of 13 blocks, and the embedding
  CHECK(saved == 53);  // all except the rotated keys, which attention saves in repeated form
}

TEST_CASE("owners hold no more than is allocated and the plan has one row for each block") {
  const Recorded recorded("dear-13");
  const trace::Trace& trace = recorded.loaded->trace;
  std::vector<int64_t> held(trace.owners.size(), 0);
  size_t next = 0;
  for (size_t i = 0; i < trace.memory.size(); ++i) {
    const trace::AllocatedBytesSample& sample = trace.memory[i];
    // Owners are known at the end of each nanosecond. Only its last sample is comparable.
    if (i + 1 < trace.memory.size() && trace.memory[i + 1].time_ns == sample.time_ns) continue;
    for (; next < trace.owned.size() && trace.owned[next].time_ns <= sample.time_ns; ++next)
      held[trace.owned[next].owner] = trace.owned[next].bytes;
    int64_t sum = 0;
    for (const int64_t bytes : held) sum += bytes;
    CHECK(sum <= sample.allocated_bytes);
  }
  const gui::PlanGrid grid = gui::make_plan_grid(trace.values);
  CHECK(grid.rows.size() == 18);
  CHECK(grid.columns.front() == "emb embedding");
  CHECK(std::ranges::count(grid.columns, "attn scaled_dot_product_attention") == 1);
}

TEST_CASE("findings advise to offload less if PCIe bandwidth is the limit") {
  const Recorded recorded("offload:stream");
  const auto findings = findings::find(recorded.loaded->trace, recorded.trial->row().measurement, nullptr);
  int told = 0;
  for (const auto& finding : findings) {
    if (finding.rule != "copies-in-late" && finding.rule != "copies-out-late") continue;
    CHECK(finding.advice.starts_with("PCIe bandwidth is the limit"));
    CHECK(finding.severity == findings::Severity::problem);
    ++told;
  }
  CHECK(told == 2);
}

TEST_CASE("the timeline draws copies and regions and every large owner of memory") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  screen.frames(4);
  const float right = screen.state.lanes.axis.right;  // the legend to the right has the same colors
  for (const auto kind : {trace::EventKind::copy_out, trace::EventKind::copy_in, trace::EventKind::region}) {
    CAPTURE(to_string(kind));
    CHECK(screen.rectangles(gui::kind_color(kind), right) > 0);
  }
  const gui::MemoryModel& memory = screen.state.current().load().timeline.memory;
  const gui::Stack peak = memory.of_sample(memory.peak);
  int holders = 0;
  for (size_t owner = 0; owner < memory.owners.size(); ++owner) {
    if (peak.owned_bytes[owner] < peak.allocated_bytes / 50) continue;
    CAPTURE(memory.owners[owner].owner.name);
    CHECK(screen.rectangles(gui::owner_color(memory, owner), right) > 0);
    ++holders;
  }
  CHECK(holders >= 3);
}

TEST_CASE("compare lists every trial and draws device activity of both steps") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  screen.state.tab = gui::Tab::compare;
  screen.frames(4);
  for (const auto kind : {trace::EventKind::kernel, trace::EventKind::copy_in, trace::EventKind::copy_out})
    CHECK(screen.rectangles(gui::kind_color(kind)) > 0);
  const std::string words = screen.words();
  for (const gui::Trial& trial : screen.state.run.trials) CHECK(words.find(trial.label()) != std::string::npos);
}

TEST_CASE("the plan has a cell for each activation in the color of its place") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  screen.state.tab = gui::Tab::plan;
  screen.frames(4);
  REQUIRE(screen.state.plan.grid.has_value());
  const gui::PlanGrid& grid = *screen.state.plan.grid;
  for (size_t place = 0; place < 3; ++place) {
    CAPTURE(gui::kPlacements[place]);
    CHECK(grid.sums[place].values > 10);
    CHECK(screen.rectangles(gui::placement_color(gui::kPlacements[place])) >= grid.sums[place].values);
  }
}

TEST_CASE("the findings pane has the text of each finding") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  gui::select_trial(screen.state, screen.state.run.find_trial("offload:stream"));
  screen.state.tab = gui::Tab::findings;
  screen.frames(4);
  REQUIRE(screen.state.findings.findings.has_value());
  CHECK(screen.state.findings.findings->size() >= 2);
  const std::string words = screen.words();
  for (const auto& finding : *screen.state.findings.findings) {
    CAPTURE(finding.what);
    CHECK(words.find(finding.what.substr(0, 20)) != std::string::npos);
  }
}

TEST_CASE("the peak panel lists all owners with blocks as one sum and the largest tensors by name") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  screen.frames(4);
  const std::string said = screen.words();
  const gui::MemoryModel& memory = screen.state.current().load().timeline.memory;
  for (const gui::OwnerCurve& owner : memory.owners) {
    if (owner.owner.kind == trace::MemoryOwnerKind::block) continue;
    CHECK_MESSAGE(said.find(owner.owner.name) != std::string::npos, owner.owner.name);
  }
  for (const char* words : {"layers.*, 16 blocks", "11.23 GiB", "58 %", "in head; layers.* hold 58 % of it",
                            "layers.*.w1 linear ×16", "loss flatten", "The measured peak is 21.21 GiB"})
    CHECK_MESSAGE(said.find(words) != std::string::npos, words << "; said: " << said);
}

TEST_CASE("every owner's line is visible whatever else the column contains") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  gui::select_event(screen.state, static_cast<uint32_t>(screen.find_event(trace::EventKind::copy_out)));
  screen.frames(4);
  const gui::MemoryModel& memory = screen.state.current().load().timeline.memory;
  const float left = screen.state.lanes.axis.right;  // the column right of the curve
  for (const std::vector<size_t>& family : memory.families) {
    const ImU32 color = gui::owner_color(memory, family.front());
    bool found = false;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists)
      for (const ImDrawVert& vertex : list->VtxBuffer)
        found = found || (vertex.col == color && vertex.pos.x > left && vertex.pos.y < 900);
    CHECK_MESSAGE(found, memory.owners[family.front()].owner.name);
  }
}

TEST_CASE("every trial's point has its name next to it") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  screen.state.tab = gui::Tab::compare;
  screen.frames(4);
  for (size_t i = 0; i < screen.state.run.trials.size(); ++i)
    CHECK_MESSAGE(screen.state.compare.labelled[i], screen.state.run.trials[i].label());
}

TEST_CASE("names of the plan take at most a third of a small window and its rows fill a large one") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  screen.state.tab = gui::Tab::plan;
  const auto rows = [&](ImVec2 size) {
    screen.size = size;
    screen.frames(4);
    float top = size.y, bottom = 0;
    for (const gui::Cursor& cell : screen.state.plan.cells) {
      top = std::min(top, cell.y);
      bottom = std::max(bottom, cell.y);
    }
    return std::pair(top / size.y, bottom / size.y);
  };
  const auto [small_top, small_bottom] = rows({900, 600});
  CHECK(small_top < 0.45F);
  CHECK(small_bottom < 1);
  const auto [large_top, large_bottom] = rows({1600, 900});
  CHECK(large_top < 0.3F);
  CHECK(large_bottom > 0.9F);
}

}  // namespace memtune::h200_test
