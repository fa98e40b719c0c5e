#include "gui/pane/findings_pane.h"

#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "gui/pane/trial_choice.h"

namespace memtune::gui {
namespace {

using findings::Finding;
using findings::Severity;

FindingsState& findings_of(AppState& state) {
  FindingsState& findings = state.findings;
  if (!findings.findings || findings.trial != state.trial) findings = {find_in(state.current()), state.trial, {}, {}};
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
  const findings::Evidence& evidence = finding.evidence;
  if (!can_be_shown(finding)) return;
  if (evidence.start_ns == evidence.end_ns) {
    state.tab = Tab::timeline;
    state.show = ShowRequest{.range = {}, .value = {}, .peak = true};
    return;
  }
  const int64_t around = evidence.end_ns - evidence.start_ns;  // what comes before and after explains it
  show_range(state, state.trial, {evidence.start_ns - around, evidence.end_ns + around});
  if (!evidence.events.empty()) select_event(state, evidence.events.front());
}

void draw_finding(AppState& state, const Finding& finding, bool selected, size_t index) {
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
  if (ImGui::IsItemHovered() && can_be_shown(finding)) ImGui::SetTooltip("click: where the timeline shows it");
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(cost_text(finding).c_str());
}

}  // namespace

void draw_findings(AppState& state) {
  if (const auto chosen = choose_trial(state.run, "##trial", state.trial)) select_trial(state, *chosen);
  const FindingsState& found = findings_of(state);
  if (found.findings->empty())
    return ImGui::TextDisabled(state.current().has_trace() ? "nothing stands out in this trial"
                                                           : "this trial has no trace to look into");
  const auto flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_PadOuterX;
  if (!ImGui::BeginTable("findings", 3, flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, px(70));
  ImGui::TableSetupColumn("finding, and what to turn", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableSetupColumn("worth", ImGuiTableColumnFlags_WidthFixed, px(90));
  ImGui::TableHeadersRow();
  const std::vector<Finding>& findings = *found.findings;
  for (size_t i = 0; i < findings.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    draw_finding(state, findings[i], state.findings.selected == i, i);
    ImGui::PopID();
  }
  ImGui::EndTable();
}

}  // namespace memtune::gui
