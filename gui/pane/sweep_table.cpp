#include "gui/pane/sweep_table.h"

#include <imgui_stdlib.h>

#include <algorithm>

#include "core/record/measurement/trial_result_row.h"
#include "gui/model/format.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr int kRolesColumn = 1;  // columns before those of columns()

void take_sorting(CompareState& compare, const std::vector<ColumnInfo>& columns) {
  ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
  if (!specs || !specs->SpecsDirty || specs->SpecsCount == 0) return;
  const ImGuiTableColumnSortSpecs& spec = specs->Specs[0];
  compare.sort_by = columns[static_cast<size_t>(spec.ColumnIndex - kRolesColumn)].column;
  compare.ascending = spec.SortDirection == ImGuiSortDirection_Ascending;
  specs->SpecsDirty = false;
}

// The column of labels stays in place when the figures are scrolled.
void set_up_columns(const Run& run, const std::vector<ColumnInfo>& columns) {
  float widest = 0;
  for (const Trial& trial : run.trials) widest = std::max(widest, ImGui::CalcTextSize(trial.label().c_str()).x);
  ImGui::TableSetupScrollFreeze(kRolesColumn + 1, 1);
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_NoSort | ImGuiTableColumnFlags_WidthFixed, px(46));
  for (const ColumnInfo& info : columns) {
    ImGuiTableColumnFlags flags = ImGuiTableColumnFlags_WidthFixed;
    if (info.column == CompareColumn::step) flags |= ImGuiTableColumnFlags_DefaultSort;
    ImGui::TableSetupColumn(info.head.c_str(), flags,
                            info.column == CompareColumn::trial ? std::clamp(widest, px(90), px(215)) : 0);
  }
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (size_t i = 0; i < columns.size(); ++i) {
    ImGui::TableSetColumnIndex(kRolesColumn + static_cast<int>(i));
    ImGui::TableHeader(columns[i].head.c_str());
    if (!columns[i].meaning.empty()) ImGui::SetItemTooltip("%s", columns[i].meaning.c_str());
  }
}

void draw_badge(const char* text, ImU32 color) {
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::CalcTextSize(text);
  const ImVec2 end(at.x + size.x + px(6), at.y + size.y);
  ImGui::GetWindowDrawList()->AddRectFilled(at, end, color, px(3));
  ImGui::GetWindowDrawList()->AddText({at.x + px(3), at.y}, text_on(color), text);
  ImGui::Dummy({end.x - at.x, size.y});
  ImGui::SameLine(0, px(2));
}

// A green dot marks the recommended trial, a blue dot a trial of the front. "A" and "B" have their own colors.
void draw_roles(const AppState& state, size_t trial) {
  const result::TrialResultRow& row = state.run.trials[trial].row();
  if (row.recommended || row.pareto) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float size = px(3.5F);
    ImGui::GetWindowDrawList()->AddCircleFilled({at.x + size, at.y + ImGui::GetTextLineHeight() / 2}, size,
                                                row.recommended ? palette().good : palette().accent);
  }
  ImGui::Dummy({px(7), ImGui::GetTextLineHeight()});
  ImGui::SameLine(0, px(3));
  if (trial == state.trial) draw_badge("A", series_color(0));
  if (state.other_trial == trial) draw_badge("B", series_color(1));
  ImGui::NewLine();
}

void draw_name(AppState& state, size_t trial) {
  const Trial& row = state.run.trials[trial];
  const ImVec2 at = ImGui::GetCursorScreenPos();
  state.compare.rows[trial] = {at.x + px(10), at.y + ImGui::GetTextLineHeight() / 2};
  const bool shown = trial == state.trial || state.other_trial == trial;
  if (ImGui::Selectable(row.label().c_str(), shown,
                        ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick)) {
    if (ImGui::GetIO().KeyCtrl) {
      state.other_trial = trial;
    } else {
      select_trial(state, trial);
      if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) state.tab = Tab::timeline;
    }
  }
  const std::string& reason = row.row().measurement.reason;
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort))
    ImGui::SetTooltip("%s%s%s", row.label().c_str(), reason.empty() ? "" : "\n", reason.c_str());
}

void draw_row(AppState& state, size_t trial, const std::vector<ColumnInfo>& columns) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  draw_roles(state, trial);
  const bool worked = result::worked(state.run.trials[trial].row());
  for (const ColumnInfo& info : columns) {
    ImGui::TableNextColumn();
    const std::string text = cell_text(state.run, trial, info.column);
    if (!worked) ImGui::PushStyleColor(ImGuiCol_Text, palette().faint_text);
    if (!worked && info.column == CompareColumn::gradients) ImGui::PushStyleColor(ImGuiCol_Text, palette().bad);
    if (info.column == CompareColumn::trial)
      draw_name(state, trial);
    else if (info.words)
      ImGui::TextUnformatted(text.c_str());
    else
      right_text(text);
    if (!worked) ImGui::PopStyleColor(info.column == CompareColumn::gradients ? 2 : 1);
  }
}

}  // namespace

void draw_sweep_table(AppState& state) {
  ImGui::SetNextItemWidth(px(220));
  ImGui::InputTextWithHint("##filter", "filter", &state.compare.filter);
  ImGui::SameLine();
  ImGui::TextDisabled("click: A   Ctrl click: B   double click: its timeline");
  const auto flags = ImGuiTableFlags_Sortable | ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
                     ImGuiTableFlags_RowBg | ImGuiTableFlags_Resizable | ImGuiTableFlags_BordersInnerV |
                     ImGuiTableFlags_SizingFixedFit;
  const std::vector<ColumnInfo> columns = gui::columns(state.run);
  if (!ImGui::BeginTable("sweep", kRolesColumn + static_cast<int>(columns.size()), flags)) return;
  set_up_columns(state.run, columns);
  take_sorting(state.compare, columns);
  const CompareState& compare = state.compare;
  state.compare.rows.assign(state.run.trials.size(), {});
  for (const size_t trial : compare_rows(state.run, compare.filter, compare.sort_by, compare.ascending)) {
    ImGui::PushID(static_cast<int>(trial));
    draw_row(state, trial, columns);
    ImGui::PopID();
  }
  ImGui::EndTable();
}

}  // namespace memtune::gui
