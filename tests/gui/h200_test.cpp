// What a GPU really recorded: made-up traces are as their maker thinks. tests/data/h200 says where it comes from.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/findings/findings.h"
#include "gui/model/plan_model.h"
#include "gui/model/trip.h"
#include "tests/gui/screen.h"

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

std::string stages(const trace::Trace& trace, const gui::Trip& trip) {
  std::string text;
  for (const uint32_t event : trip) text += gui::stage_name(trace.events[event].kind) + "; ";
  return text;
}

}  // namespace

TEST_CASE("a recorded sweep opens whole, with its recommendation") {
  const Recorded recorded("dear-13");
  CHECK(recorded.run.trials.size() == 6);
  CHECK(recorded.run.trials[recorded.run.first_trial()].label() == "dear-13");
  for (const char* name : {"none", "dear-13", "offload:stream"}) {
    const gui::LoadedTrace& loaded = recorded.run.trials[recorded.run.find_trial(name)].load();
    CHECK(loaded.problem == "");
    CHECK(loaded.trace.events.size() > 2000);
    CHECK(loaded.trace.lost_records == 0);
  }
}

TEST_CASE("every value that went to the host was copied out, then in, and used after it was saved") {
  const Recorded recorded("dear-13");
  const trace::Trace& trace = recorded.loaded->trace;
  int moved = 0, saved = 0;
  for (uint32_t value = 1; value <= trace.values.size(); ++value) {
    if (trace.values[value - 1].placement != "host") continue;
    const auto trips = gui::trips_of(trace, recorded.loaded->timeline, value);
    REQUIRE(trips.size() == 1);
    const std::string text = stages(trace, trips[0]);
    CAPTURE(trace.values[value - 1].name);
    CAPTURE(text);
    const size_t out = text.find("copied out; "), in = text.find("copied in; "), use = text.find("used; ");
    CHECK(out < in);
    CHECK(in != std::string::npos);
    ++moved;
    if (text.find("saved; ") == std::string::npos) continue;  // others start from it, autograd does not want it
    CHECK(text.find("saved; ") < in);
    CHECK(in < use);
    CHECK(use != std::string::npos);
    ++saved;
  }
  CHECK(moved == 66);  // five values of 13 blocks, and the embedding
  CHECK(saved == 53);  // all but the rotated keys, which attention has in repeated form
}

TEST_CASE("owners hold no more than there is, and the plan has a row a block") {
  const Recorded recorded("dear-13");
  const trace::Trace& trace = recorded.loaded->trace;
  std::vector<int64_t> held(trace.owners.size(), 0);
  size_t next = 0;
  for (size_t i = 0; i < trace.memory.size(); ++i) {
    const trace::MemorySample& sample = trace.memory[i];
    // Owners are known as each nanosecond left them: so is its last sample.
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

TEST_CASE("where the link is the limit the advice is to move less") {
  const Recorded recorded("offload:stream");
  const auto findings = findings::find(recorded.loaded->trace, recorded.trial->row().measurement, nullptr);
  int told = 0;
  for (const auto& finding : findings) {
    if (finding.rule != "copies-in-late" && finding.rule != "copies-out-late") continue;
    CHECK(finding.advice.starts_with("the link is the limit"));
    CHECK(finding.severity == findings::Severity::problem);
    ++told;
  }
  CHECK(told == 2);
}

TEST_CASE("each pane draws what was recorded") {
  test::Screen screen;
  gui::open_path(screen.state, MEMTUNE_H200_RUN);
  for (const gui::Tab tab : {gui::Tab::timeline, gui::Tab::compare, gui::Tab::plan, gui::Tab::findings}) {
    screen.state.tab = tab;
    screen.frames(4);
    CHECK(ImGui::GetDrawData()->TotalVtxCount > 500);
  }
}
