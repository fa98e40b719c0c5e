#include "gui/pane/shortcuts.h"

#include <algorithm>
#include <cmath>

#include "gui/model/value_lifetime.h"

namespace memtune::gui {
namespace {

constexpr double kZoomPerSecond = 12, kPanPerSecond = 0.9;  // while a key is held
constexpr double kPeakShare = 0.1;                          // share of the trace visible around the peak

bool pressed(ImGuiKeyChord chord) { return ImGui::IsKeyChordPressed(chord); }

// Seconds that the key is held in this frame, at least a sixtieth, so that a short press has an effect.
double held(ImGuiKey key) {
  if (ImGui::GetIO().KeyCtrl || !ImGui::IsKeyDown(key)) return 0;
  return std::clamp(static_cast<double>(ImGui::GetIO().DeltaTime), 1.0 / 60, 0.1);
}

void handle_app_keys(AppState& state) {
  if (pressed(ImGuiMod_Ctrl | ImGuiKey_Equal) || pressed(ImGuiMod_Ctrl | ImGuiKey_KeypadAdd) ||
      pressed(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Equal))
    step_scale(state, 1);
  if (pressed(ImGuiMod_Ctrl | ImGuiKey_Minus) || pressed(ImGuiMod_Ctrl | ImGuiKey_KeypadSubtract))
    step_scale(state, -1);
  if (pressed(ImGuiMod_Ctrl | ImGuiKey_0)) step_scale(state, 0);
  if (pressed(ImGuiMod_Ctrl | ImGuiKey_Q)) state.quit = true;
  if (pressed(ImGuiMod_Ctrl | ImGuiKey_F)) {
    state.tab = Tab::timeline;
    state.search_open = state.search_focus = true;
  }
}

void leave(AppState& state) {
  if (state.help) {
    state.help = false;
  } else if (state.search_open) {
    state.search_open = false;
  } else if (state.view.event || state.view.value) {
    state.view.clear_selection();
  } else {
    state.view.marks.clear();
  }
}

void handle_plain_keys(AppState& state) {
  // The character '?', on any keyboard layout.
  if (ImGui::GetIO().InputQueueCharacters.contains('?') || pressed(ImGuiKey_F1)) state.help = !state.help;
  if (pressed(ImGuiKey_T)) state.theme = state.theme == Theme::dark ? Theme::light : Theme::dark;
  if (pressed(ImGuiKey_Tab) && state.other_trial) {
    const size_t other = *state.other_trial;
    state.other_trial = state.trial;
    select_trial(state, other);
  }
  for (int i = 0; i < 9; ++i) {
    if (pressed(static_cast<ImGuiKey>(ImGuiKey_1 + i))) select_trial(state, static_cast<size_t>(i));
  }
}

void handle_timeline_keys(AppState& state) {
  ViewState& view = state.view;
  // The mouse may have moved in this frame.
  if (state.lanes.over_time(ImGui::GetMousePos())) view.cursor_ns = state.lanes.axis.time(ImGui::GetMousePos().x);
  const double at = std::clamp((view.cursor_ns - view.start_ns) / view.span_ns(), 0.0, 1.0);
  if (const double time = held(ImGuiKey_W); time > 0) view.zoom(std::pow(kZoomPerSecond, time), at);
  if (const double time = held(ImGuiKey_S); time > 0) view.zoom(std::pow(kZoomPerSecond, -time), at);
  view.pan(kPanPerSecond * (held(ImGuiKey_D) - held(ImGuiKey_A)));
  if (pressed(ImGuiKey_F)) fit_selection(state);
  if (pressed(ImGuiKey_Home)) view.fit_all();
  if (pressed(ImGuiKey_P)) jump_to_peak(state);
  if (pressed(ImGuiKey_R)) {
    const auto ranks = ranks_of(state.current().load().timeline);
    view.folded = view.folded.empty() ? ranks : std::set<int32_t>();
  }
  if (pressed(ImGuiKey_M)) view.mark(static_cast<int64_t>(view.cursor_ns));
  if (!state.search.hits().empty()) {
    if (pressed(ImGuiKey_Enter)) step_search(state, true);
    if (pressed(ImGuiMod_Shift | ImGuiKey_Enter)) step_search(state, false);
  }
}

}  // namespace

const std::vector<KeyHelp>& key_help() {
  static const std::vector<KeyHelp> kKeys = {{"wheel, W S", "zoom at the mouse (Ctrl: fine, Shift: fast)"},
                                             {"drag, A D", "move along the time"},
                                             {"click", "select; highlights the lifetime of an activation"},
                                             {"double click, F", "fit the selection, or all"},
                                             {"Home", "the whole trace"},
                                             {"P", "jump to the memory's peak"},
                                             {"M", "mark the time under the mouse; two marks measure"},
                                             {"Shift drag", "mark a range: its kernels by time, count and module"},
                                             {"click a step", "its kernels, the longest first"},
                                             {"R", "fold all ranks, or unfold them; a click on a name folds one"},
                                             {"Ctrl F", "search; Enter and Shift Enter go through the hits"},
                                             {"1 to 9", "choose a trial"},
                                             {"Tab", "swap with the trial to compare"},
                                             {"T", "dark or light"},
                                             {"Ctrl +, Ctrl -, Ctrl 0", "larger, smaller, as it was"},
                                             {"Esc", "close, then clear selection, then marks"},
                                             {"Ctrl Q", "quit"},
                                             {"?", "this list"}};
  return kKeys;
}

void handle_keys(AppState& state) {
  handle_app_keys(state);
  const bool list_open = ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup);  // the popup handles the key itself
  if (pressed(ImGuiKey_Escape) && !list_open) leave(state);
  if (ImGui::GetIO().WantTextInput) return;
  handle_plain_keys(state);
  if (state.tab == Tab::timeline && state.has_trial()) handle_timeline_keys(state);
}

void fit_selection(AppState& state) {
  const LoadedTrace& loaded = state.current().load();
  ViewState& view = state.view;
  if (const ValueLifetime lifetime = highlighted_lifetime(state); !lifetime.empty()) {
    view.fit(extent(loaded.trace, lifetime));
  } else if (view.event) {
    const trace::TraceEvent& event = loaded.trace.events[*view.event];
    view.fit({event.start_ns, event.end_ns});
  } else {
    view.fit_all();
  }
}

void jump_to_peak(AppState& state) {
  const MemoryModel& memory = state.current().load().timeline.memory;
  if (memory.empty()) return;
  ViewState& view = state.view;
  const double most = kPeakShare * static_cast<double>(view.whole.end - view.whole.start);
  if (view.span_ns() > most) view.zoom(view.span_ns() / most, 0.5);
  view.memory_at_ns = memory.times_ns[memory.peak];
  view.centre(*view.memory_at_ns);
}

void step_search(AppState& state, bool forward) {
  const LoadedTrace& loaded = state.current().load();
  ViewState& view = state.view;
  const auto hit = state.search.step(loaded.trace, forward, static_cast<int64_t>(view.start_ns));
  if (!hit) return;
  select_event(state, *hit);
  const trace::TraceEvent& event = loaded.trace.events[*hit];
  const double length = static_cast<double>(event.end_ns - event.start_ns);
  // The event must be visible, and so must its surroundings.
  const double span = std::clamp(view.span_ns(), 2 * length, std::max(200 * length, 1e6));
  view.zoom(view.span_ns() / span, 0.5);
  view.centre(event.start_ns + (event.end_ns - event.start_ns) / 2);
}

void step_scale(AppState& state, int steps) {
  state.zoom_level = steps == 0 ? 0 : std::clamp(state.zoom_level + steps, -4, 8);
}

}  // namespace memtune::gui
