// The viewer takes blocks from the trace, whatever their names.
#include <doctest/doctest.h>

#include "gui/model/compare_model.h"
#include "gui/pane/lanes.h"
#include "gui/pane/memory_track.h"
#include "tests/gui/screen.h"

namespace memtune::gui_block_names_test {

using namespace memtune;
using trace::MemoryOwnerKind;
using trace::Pass;
using trace::TraceRegionKey;
using trace::TraceRegionLevel;

namespace {

// Owners in an order that no chart uses.
trace::Trace named(const std::string& first, const std::string& second) {
  trace::Trace trace;
  trace.owners = {{MemoryOwnerKind::outside, "outside of blocks"},
                  {MemoryOwnerKind::block, second, 1},
                  {MemoryOwnerKind::gradients, "gradients"},
                  {MemoryOwnerKind::block, first, 0},
                  {MemoryOwnerKind::parameters, "parameters"}};
  for (uint32_t owner = 0; owner < trace.owners.size(); ++owner) trace.owned.push_back({0, owner, 1});
  trace.memory = {{0, 10}, {10, 10}};
  test::add_region(trace, test::kStep, "step", 0, 10);
  test::add_region(trace, TraceRegionKey::of_block(0), first, 0, 2);
  test::add_region(trace, TraceRegionKey::of_block(1, Pass::backward), second + " backward", 2, 4);
  test::add_region(trace, TraceRegionKey::of_block(0, Pass::recompute), first + " recompute", 4, 6);
  test::add_region(trace, {TraceRegionLevel::head}, "head", 6, 7);
  return trace;
}

const std::vector<std::pair<std::string, std::string>> kNames = {
    {"layers.0", "layers.1"}, {"down_blocks.2.attn", "down_blocks.1.attn"}, {"layer10", "layer9"}, {"head", "stem"}};

}  // namespace

TEST_CASE("memory is stacked and colored by owner with blocks in model order whatever their names") {
  test::Screen screen;  // colors depend on the theme
  screen.frames();
  for (const auto& [first, second] : kNames) {
    CAPTURE(first);
    const gui::MemoryModel memory = gui::make_memory(named(first, second));
    std::vector<std::string> order;
    for (const gui::OwnerCurve& curve : memory.owners) order.push_back(curve.owner.name);
    CHECK(order == std::vector<std::string>{"parameters", first, second, "gradients", "outside of blocks"});
    // The two shades of blocks differ only in alpha.
    CHECK((gui::owner_color(memory, 1) & 0xffffffU) == (gui::owner_color(memory, 2) & 0xffffffU));
    CHECK(gui::owner_color(memory, 1) != gui::owner_color(memory, 2));
    CHECK((gui::owner_color(memory, 4) & 0xffffffU) != (gui::owner_color(memory, 1) & 0xffffffU));
  }
}

TEST_CASE("lanes and the overlay color a region by its pass") {
  test::Screen screen;
  screen.frames();
  for (const auto& [first, second] : kNames) {
    CAPTURE(first);
    gui::LoadedTrace loaded;
    loaded.trace = named(first, second);
    loaded.timeline = gui::make_timeline(loaded.trace);
    const auto color = [&](size_t event) { return gui::event_color(loaded.trace.events[event]); };
    CHECK(color(1) == gui::series_color(0));
    CHECK(color(2) == gui::series_color(1));
    CHECK(color(3) == gui::series_color(4));
    const gui::Overlay overlay = gui::make_overlay(loaded, loaded);
    std::vector<size_t> kinds;
    for (const gui::Stretch& stretch : overlay.a.blocks) kinds.push_back(stretch.kind);
    CHECK(kinds == std::vector<size_t>{0, 1, 2, 3});
  }
}

}  // namespace memtune::gui_block_names_test
