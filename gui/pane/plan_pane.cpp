#include "gui/pane/plan_pane.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "core/base/bytes.h"
#include "gui/pane/trial_choice.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr float kUsualRow = 22, kMinRow = 16, kMaxRow = 40, kMinCell = 14, kLyingCell = 58, kMaxCell = 140;
constexpr float kSlant = 0.7F;     // share of 90 degrees, to the right
constexpr float kMaxHeads = 0.3F;  // share of the pane's height

const PlanGrid& grid_of(AppState& state) {
  PlanState& plan = state.plan;
  if (!plan.grid || plan.trial != state.trial) {
    const std::vector<trace::TracedActivationPlacement>& values = state.current().load().trace.values;
    const auto file = values.empty() ? read_plan(state.current()) : std::nullopt;
    plan.grid = file ? make_plan_grid(*file, state.run.blocks[state.current().run()]) : make_plan_grid(values);
    plan.trial = state.trial;
    plan.cells.assign(plan.grid->values.size(), {});
  }
  return *plan.grid;
}

std::string sum_text(const PlacementSum& sum, bool bytes_known) {
  return std::to_string(sum.values) + (sum.values == 1 ? " value" : " values") +
         (bytes_known ? ", " + format_bytes(sum.bytes) : "");
}

void draw_legend(const PlanGrid& grid) {
  for (size_t i = 0; i < kPlacements.size(); ++i) {
    swatch(placement_color(kPlacements[i]));
    ImGui::TextUnformatted(kPlacements[i].c_str());
    ImGui::SameLine(0, px(6));
    ImGui::TextDisabled("%s", sum_text(grid.sums[i], grid.bytes_known).c_str());
    if (i + 1 < kPlacements.size()) ImGui::SameLine(0, px(22));
  }
}

void draw_tip(const trace::TracedActivationPlacement& value, bool bytes_known) {
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(px(380));
  ImGui::TextUnformatted(value.name.c_str());
  const std::string bytes = bytes_known ? ", " + format_bytes(value.bytes) : "";
  ImGui::TextColored(unpacked(placement_color(value.placement)), "%s%s", value.placement.c_str(), bytes.c_str());
  if (!value.reason.empty()) ImGui::TextWrapped("%s", value.reason.c_str());
  if (bytes_known) ImGui::TextDisabled("click: its lifetime in the timeline");
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

// Positions of the cells, in pixels of the screen.
struct Layout {
  float left, top, names, cell, row;
};

// In cells too small for text, a bar at the bottom shows the tensor's share of the largest.
void draw_share(const PlanGrid& grid, const trace::TracedActivationPlacement& value, ImVec2 low, ImVec2 high,
                int64_t largest) {
  if (!grid.bytes_known || largest <= 0) return;
  const float share = static_cast<float>(static_cast<double>(value.bytes) / static_cast<double>(largest));
  ImGui::GetWindowDrawList()->AddRectFilled({low.x + share * (high.x - low.x), high.y - px(3)}, high,
                                            with_alpha(palette().lane, 0.75F));
}

int64_t largest_value(const PlanGrid& grid) {
  int64_t largest = 0;
  for (const trace::TracedActivationPlacement& value : grid.values) largest = std::max(largest, value.bytes);
  return largest;
}

std::string short_bytes(int64_t bytes) {
  std::string text = format_bytes(bytes);
  return text.substr(0, text.find(' ')) + text.substr(text.find(' ') + 1, 1);  // "64M"
}

// Draws a cell and handles the mouse.
void draw_cell(AppState& state, const PlanGrid& grid, uint32_t index, ImVec2 low, ImVec2 high, int64_t largest) {
  const trace::TracedActivationPlacement& value = grid.values[index];
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 fill = placement_color(value.placement);
  list.AddRectFilled(low, high, fill);
  state.plan.cells[index] = {(low.x + high.x) / 2, (low.y + high.y) / 2};
  const std::string text = grid.bytes_known ? short_bytes(value.bytes) : "";
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  if (!text.empty() && high.x - low.x > size.x + px(6))
    list.AddText({(low.x + high.x - size.x) / 2, (low.y + high.y - size.y) / 2}, text_on(fill), text.c_str());
  else
    draw_share(grid, value, low, high, largest);
  if (!ImGui::IsWindowHovered() || !ImGui::IsMouseHoveringRect(low, high)) return;
  list.AddRect(low, high, palette().selection, 0, px(1.5F));
  draw_tip(value, grid.bytes_known);
  // On release of the button: otherwise the timeline would take the release as a click on its background.
  if (grid.bytes_known && ImGui::IsMouseReleased(ImGuiMouseButton_Left))
    show_value(state, state.trial, trace::ValueId(index));
}

float widest(const std::vector<std::string>& texts) {
  float width = 0;
  for (const std::string& text : texts) width = std::max(width, ImGui::CalcTextSize(text.c_str()).x);
  return width;
}

// Number of characters that fit, at least one.
size_t fitting(const std::string& text, float width) {
  size_t count = text.size();
  while (count > 1 && ImGui::CalcTextSize(text.substr(0, count).c_str()).x > width) --count;
  return count;
}

// A column's name in lines of at most that width, broken between words if possible.
std::vector<std::string> wrapped(const std::string& name, float width) {
  std::vector<std::string> lines(1);
  for (size_t start = 0; start < name.size();) {
    const size_t end = std::min(name.find_first_of(" _.", start), name.size() - 1) + 1;
    std::string piece = name.substr(start, end - start);
    if (!lines.back().empty() && ImGui::CalcTextSize((lines.back() + piece).c_str()).x > width) lines.emplace_back();
    piece.resize(fitting(piece, width));
    lines.back() += piece;
    start += piece.size();
  }
  return lines;
}

struct Heads {
  std::vector<std::vector<std::string>> lines;  // one per column
  std::vector<std::string> slanted;             // used instead of `lines`, cut if too long; empty: use `lines`
  float height = 0;
};

std::string cut_to(std::string text, float width) {
  if (ImGui::CalcTextSize(text.c_str()).x <= width) return text;
  while (!text.empty() && ImGui::CalcTextSize((text + "...").c_str()).x > width) text.pop_back();
  return text + "...";
}

// Horizontal if the columns are wide enough, otherwise slanted.
Heads make_heads(const PlanGrid& grid, float cell, float room) {
  Heads heads;
  size_t most = 0;
  for (const std::string& name : grid.columns) {
    heads.lines.push_back(wrapped(name, cell));
    most = std::max(most, heads.lines.back().size());
  }
  heads.height = static_cast<float>(most) * ImGui::GetTextLineHeight() + px(6);
  if (cell >= px(kLyingCell) && heads.height <= room * kMaxHeads) return heads;
  const float sine = std::sin(1.5708F * kSlant);
  heads.slanted = grid.columns;
  for (std::string& name : heads.slanted) name = cut_to(name, (room * kMaxHeads - px(16)) / sine);
  heads.height = widest(heads.slanted) * sine + px(16);
  return heads;
}

void draw_lying(const std::vector<std::string>& lines, ImVec2 foot) {
  float y = foot.y - static_cast<float>(lines.size()) * ImGui::GetTextLineHeight();
  for (const std::string& line : lines) {
    const float x = foot.x - ImGui::CalcTextSize(line.c_str()).x / 2;
    ImGui::GetWindowDrawList()->AddText({x, y}, palette().text, line.c_str());
    y += ImGui::GetTextLineHeight();
  }
}

void draw_slanted(const std::string& name, ImVec2 foot) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float angle = -1.5708F * kSlant;
  const int first = list.VtxBuffer.Size;
  list.AddText({foot.x, foot.y - ImGui::GetFontSize() / 2}, palette().text, name.c_str());
  ImGui::ShadeVertsTransformPos(&list, first, list.VtxBuffer.Size, foot, std::cos(angle), std::sin(angle), foot);
}

void draw_heads(const PlanGrid& grid, const Heads& heads, const Layout& at) {
  for (size_t i = 0; i < grid.columns.size(); ++i) {
    const float left = at.left + at.names + static_cast<float>(i) * at.cell;
    const ImVec2 foot(left + at.cell / 2, at.top + heads.height - px(5));
    heads.slanted.empty() ? draw_lying(heads.lines[i], foot) : draw_slanted(heads.slanted[i], foot);
    if (ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect({left, at.top}, {left + at.cell, at.top + heads.height}))
      ImGui::SetTooltip("%s", grid.columns[i].c_str());
  }
}

std::string kept_text(const PlanRow& row) {
  int64_t kept = 0;
  for (size_t i = 0; i < kPlacements.size(); ++i) kept += kPlacements[i] == "keep" ? row.sums[i].bytes : 0;
  return format_bytes(kept) + " kept";
}

void draw_block(AppState& state, const PlanGrid& grid, const PlanRow& row, const Layout& at, float y, int64_t largest) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddText({at.left, y + (at.row - ImGui::GetFontSize()) / 2}, palette().text, row.block.c_str());
  for (size_t i = 0; i < row.cells.size(); ++i) {
    if (!row.cells[i]) continue;
    const float x = at.left + at.names + static_cast<float>(i) * at.cell;
    draw_cell(state, grid, *row.cells[i], {x + px(1), y + px(1)}, {x + at.cell - px(1), y + at.row - px(1)}, largest);
  }
  if (!grid.bytes_known) return;
  const float x = at.left + at.names + static_cast<float>(row.cells.size()) * at.cell + px(8);
  list.AddText({x, y + (at.row - ImGui::GetFontSize()) / 2}, palette().faint_text, kept_text(row).c_str());
}

void draw_blocks(AppState& state, const PlanGrid& grid, int64_t largest) {
  std::vector<std::string> names, kept;
  for (const PlanRow& row : grid.rows) {
    names.push_back(row.block);
    kept.push_back(kept_text(row));
  }
  Layout at{};
  at.names = widest(names) + px(10);
  const ImVec2 pane = ImGui::GetContentRegionAvail();
  const float lean = std::min(widest(grid.columns), pane.y * kMaxHeads) * std::cos(1.5708F * kSlant);
  const float sums = std::max(lean, widest(kept) + px(16)), room = pane.x - at.names - sums;
  at.cell = std::clamp(room / static_cast<float>(grid.columns.size()), px(kMinCell), px(kMaxCell));
  const Heads heads = make_heads(grid, at.cell, pane.y);
  const float outside = grid.outside.empty() ? 0 : px(2.5F * kUsualRow);
  at.row = std::clamp((pane.y - heads.height - outside - px(8)) / static_cast<float>(grid.rows.size()), px(kMinRow),
                      px(kMaxRow));
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  at.left = corner.x;
  at.top = corner.y;
  draw_heads(grid, heads, at);
  for (size_t i = 0; i < grid.rows.size(); ++i)
    draw_block(state, grid, grid.rows[i], at, at.top + heads.height + static_cast<float>(i) * at.row, largest);
  ImGui::Dummy({at.names + at.cell * static_cast<float>(grid.columns.size()) + sums,
                heads.height + at.row * static_cast<float>(grid.rows.size())});
}

// Tensors outside all blocks, in wrapped lines.
void draw_outside(AppState& state, const PlanGrid& grid, int64_t largest) {
  ImGui::SeparatorText(grid.rows.empty() ? "values" : "outside of blocks");
  const float cell = px(56), row = px(kUsualRow);
  const auto per_row = static_cast<size_t>(std::max(1.0F, ImGui::GetContentRegionAvail().x / cell));
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  for (size_t i = 0; i < grid.outside.size(); ++i) {
    const size_t line = i / per_row, place = i % per_row;
    const ImVec2 low(corner.x + static_cast<float>(place) * cell, corner.y + static_cast<float>(line) * row);
    draw_cell(state, grid, grid.outside[i], {low.x + px(1), low.y + px(1)}, {low.x + cell - px(1), low.y + row - px(1)},
              largest);
  }
  const size_t rows = (grid.outside.size() + per_row - 1) / per_row;
  ImGui::Dummy({cell * static_cast<float>(std::min(per_row, grid.outside.size())), row * static_cast<float>(rows)});
}

}  // namespace

void draw_plan(AppState& state) {
  if (const auto chosen = choose_trial(state.run, "##trial", state.trial, false)) select_trial(state, *chosen);
  const PlanGrid& grid = grid_of(state);
  if (grid.values.empty())
    return ImGui::TextDisabled("neither the trace nor a plan file has the places of activations");
  draw_legend(grid);
  ImGui::BeginChild("grid", {0, 0}, 0, ImGuiWindowFlags_HorizontalScrollbar);
  const int64_t largest = largest_value(grid);
  if (!grid.rows.empty()) draw_blocks(state, grid, largest);
  if (!grid.outside.empty()) draw_outside(state, grid, largest);
  ImGui::EndChild();
}

}  // namespace memtune::gui
