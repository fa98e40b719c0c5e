#include "gui/pane/findings_pane.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "gui/pane/overview.h"
#include "gui/pane/trial_choice.h"

namespace memtune::gui {
namespace {

using findings::Finding;
using findings::Severity;

FindingsState& findings_of(AppState& state) {
  FindingsState& findings = state.findings;
  if (!findings.findings || findings.trial != state.trial)
    findings = {find_in(state.current()), state.trial, {}, {}, {}};
  findings.rows.resize(findings.findings->size());
  return findings;
}

ImU32 severity_color(Severity severity) {
  if (severity == Severity::problem) return palette().bad;
  return severity == Severity::advice ? palette().warning : palette().faint_text;
}

std::string cost_text(const Finding& finding) {
  if (finding.ms_per_step > 0) return ms_text(finding.ms_per_step);
  return finding.bytes > 0 ? format_bytes(finding.bytes) : "";
}

bool can_be_shown(const Finding& finding) { return finding.evidence.end_ns > 0; }

void show(AppState& state, const Finding& finding) {
  const findings::FindingTraceEvidence& evidence = finding.evidence;
  if (!can_be_shown(finding)) return;
  if (evidence.start_ns == evidence.end_ns) {
    state.tab = Tab::timeline;
    state.show = ShowRequest{.range = {}, .value = {}, .peak = true};
    return;
  }
  const int64_t around = evidence.end_ns - evidence.start_ns;  // show the time before and after, which explains it
  show_range(state, state.trial, {evidence.start_ns - around, evidence.end_ns + around});
  if (!evidence.events.empty()) select_event(state, evidence.events.front());
}

// Returns the y where its row ends.
float draw_finding(AppState& state, const Finding& finding, bool selected, size_t index) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::PushStyleColor(ImGuiCol_Text, severity_color(finding.severity));
  ImGui::TextUnformatted(to_string(finding.severity).c_str());
  ImGui::PopStyleColor();
  ImGui::TableNextColumn();
  const ImVec2 at = ImGui::GetCursorPos();
  ImGui::PushTextWrapPos(0);
  ImGui::TextWrapped("%s", finding.what.c_str());
  if (!finding.advice.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, palette().accent);
    ImGui::TextWrapped("%s", advice_text(finding).c_str());
    ImGui::PopStyleColor();
  }
  ImGui::PopTextWrapPos();
  const float height = ImGui::GetCursorPosY() - at.y - ImGui::GetStyle().ItemSpacing.y;
  ImGui::SetCursorPos(at);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  state.findings.rows[index] = {corner.x + px(20), corner.y + height / 2};
  if (ImGui::Selectable("##row", selected, ImGuiSelectableFlags_SpanAllColumns, {0, height})) {
    state.findings.selected = index;
    show(state, finding);
  }
  if (ImGui::IsItemHovered() && can_be_shown(finding)) {
    state.findings.hovered = index;
    ImGui::SetTooltip("click: where the timeline shows it");
  }
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(cost_text(finding).c_str());
  return at.y + height + ImGui::GetStyle().CellPadding.y;
}

// Its height is that of its rows, up to half of the pane.
void draw_table(AppState& state, const std::vector<Finding>& findings) {
  float& height = *ImGui::GetStateStorage()->GetFloatRef(ImGui::GetID("table height"), px(60));
  const auto flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_PadOuterX;
  const float most = ImGui::GetContentRegionAvail().y / 2;
  if (!ImGui::BeginTable("findings", 3, flags, {0, std::clamp(height, px(60), std::max(most, px(60)))})) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, px(70));
  ImGui::TableSetupColumn("finding, and what to change", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableSetupColumn("worth", ImGuiTableColumnFlags_WidthFixed, px(90));
  ImGui::TableHeadersRow();
  for (size_t i = 0; i < findings.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    height = draw_finding(state, findings[i], state.findings.selected == i, i) + px(2);
    ImGui::PopID();
  }
  ImGui::EndTable();
}

// The finding under the mouse, or the first that the trace can show.
std::optional<size_t> pointed_at(const FindingsState& state) {
  if (state.hovered) return state.hovered;
  const auto first = std::ranges::find_if(*state.findings, can_be_shown);
  if (first == state.findings->end()) return {};
  return static_cast<size_t>(first - state.findings->begin());
}

void draw_evidence(AppState& state) {
  const std::vector<Finding>& findings = *state.findings.findings;
  const std::optional<size_t> index = pointed_at(state.findings);
  std::vector<Stretched> stretches;
  if (index) {
    const findings::FindingTraceEvidence& evidence = findings[*index].evidence;
    stretches.push_back({{evidence.start_ns, evidence.end_ns}, severity_color(findings[*index].severity)});
    ImGui::TextDisabled("its step, and where it is: %s", findings[*index].what.c_str());
  }
  if (draw_overview(state.current().load(), stretches) && index) show(state, Finding(findings[*index]));
}

}  // namespace

void draw_findings(AppState& state) {
  if (const auto chosen = choose_trial(state.run, "##trial", state.trial)) select_trial(state, *chosen);
  findings_of(state).hovered.reset();
  if (!state.findings.findings->empty())
    draw_table(state, *state.findings.findings);
  else
    ImGui::TextDisabled(state.current().has_trace() ? "nothing stands out in this trial"
                                                    : "this trial has no trace to look into");
  draw_evidence(state);
}

}  // namespace memtune::gui
