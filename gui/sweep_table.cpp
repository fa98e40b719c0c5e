#include "gui/sweep_table.h"

#include <imgui_stdlib.h>

#include "gui/format.h"

namespace memtune::gui {
namespace {

constexpr int kRolesColumn = 1;  // columns before those of figures()

void right_text(const std::string& text) {
  const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  ImGui::TextUnformatted(text.c_str());
}

void take_sorting(CompareState& compare) {
  ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
  if (!specs || !specs->SpecsDirty || specs->SpecsCount == 0) return;
  const ImGuiTableColumnSortSpecs& spec = specs->Specs[0];
  compare.sort_by = figures()[static_cast<size_t>(spec.ColumnIndex - kRolesColumn)].figure;
  compare.ascending = spec.SortDirection == ImGuiSortDirection_Ascending;
  specs->SpecsDirty = false;
}

void set_up_columns() {
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_NoSort | ImGuiTableColumnFlags_WidthFixed);
  for (const FigureInfo& info : figures()) {
    ImGuiTableColumnFlags flags = info.words ? 0 : ImGuiTableColumnFlags_PreferSortAscending;
    if (info.figure == Figure::step) flags |= ImGuiTableColumnFlags_DefaultSort;
    flags |= info.figure == Figure::trial ? ImGuiTableColumnFlags_WidthStretch : ImGuiTableColumnFlags_WidthFixed;
    ImGui::TableSetupColumn(info.head, flags);
  }
  ImGui::TableHeadersRow();
}

// "A" and "B" in their colors, a star for the recommended trial, a dot for the front.
void draw_roles(const AppState& state, size_t trial) {
  const report::Row& row = state.run.trials[trial].row();
  const auto put = [](const char* text, ImU32 color) {
    ImGui::PushStyleColor(ImGuiCol_Text, color);
    ImGui::TextUnformatted(text);
    ImGui::PopStyleColor();
    ImGui::SameLine(0, px(3));
  };
  if (row.recommended)
    put("*", palette().good);
  else if (row.pareto)
    put("•", palette().accent);
  if (trial == state.trial) put("A", series_color(0));
  if (state.other_trial == trial) put("B", series_color(1));
  ImGui::NewLine();
}

void draw_name(AppState& state, size_t trial) {
  const Trial& row = state.run.trials[trial];
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
  const trace::Measurement& measured = row.row().measurement;
  if (!measured.reason.empty() && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", measured.reason.c_str());
}

void draw_row(AppState& state, size_t trial) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  draw_roles(state, trial);
  const bool worked = state.run.trials[trial].row().measurement.outcome == trace::Outcome::ok;
  for (const FigureInfo& info : figures()) {
    ImGui::TableNextColumn();
    const std::string text = figure_text(state.run, trial, info.figure);
    if (!worked) ImGui::PushStyleColor(ImGuiCol_Text, palette().faint_text);
    if (!worked && info.figure == Figure::gradients) ImGui::PushStyleColor(ImGuiCol_Text, palette().bad);
    if (info.figure == Figure::trial)
      draw_name(state, trial);
    else if (info.words)
      ImGui::TextUnformatted(text.c_str());
    else
      right_text(text);
    if (!worked) ImGui::PopStyleColor(info.figure == Figure::gradients ? 2 : 1);
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
  if (!ImGui::BeginTable("sweep", kRolesColumn + static_cast<int>(figures().size()), flags)) return;
  set_up_columns();
  take_sorting(state.compare);
  const CompareState& compare = state.compare;
  for (const size_t trial : compare_rows(state.run, compare.filter, compare.sort_by, compare.ascending)) {
    ImGui::PushID(static_cast<int>(trial));
    draw_row(state, trial);
    ImGui::PopID();
  }
  ImGui::EndTable();
}

}  // namespace memtune::gui
