#include "gui/pane/memory_details.h"

#include <algorithm>

#include "core/answer/report/explanation.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "gui/model/format.h"
#include "gui/pane/memory_track.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr size_t kMaxTensors = 5;

std::string share_text(int64_t bytes, int64_t whole) {
  return whole > 0 ? fixed(100.0 * static_cast<double>(bytes) / static_cast<double>(whole), 0) + " %" : "";
}

void end_memory_row(int64_t bytes, int64_t whole) {
  ImGui::TableNextColumn();
  right_text(format_bytes(bytes));
  ImGui::TableNextColumn();
  right_text(share_text(bytes, whole));
}

void memory_row(ImU32 color, const std::string& name, int64_t bytes, int64_t whole) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  swatch(color);
  ImGui::TextUnformatted(name.c_str());
  end_memory_row(bytes, whole);
}

// Blocks with the same base name share one row that can be opened.
void family_rows(const MemoryModel& memory, const Stack& stack, const std::vector<size_t>& family) {
  int64_t sum = 0;
  for (const size_t owner : family) sum += stack.owned_bytes[owner];
  const trace::MemoryOwner& first = memory.owners[family.front()].owner;
  if (family.size() == 1)
    return memory_row(owner_color(memory, family.front()), first.name, sum, stack.allocated_bytes);
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  swatch(owner_color(memory, family.front()));
  const std::string name = trace::family(first) + ", " + std::to_string(family.size()) + " blocks";
  const bool open = ImGui::TreeNodeEx(name.c_str(), ImGuiTreeNodeFlags_SpanAllColumns);
  end_memory_row(sum, stack.allocated_bytes);
  if (!open) return;
  for (const size_t owner : family)
    memory_row(owner_color(memory, owner), memory.owners[owner].owner.name, stack.owned_bytes[owner],
               stack.allocated_bytes);
  ImGui::TreePop();
}

bool begin_memory_table(const char* id, int columns) {
  if (!ImGui::BeginTable(id, columns)) return false;
  ImGui::TableSetupColumn("who", ImGuiTableColumnFlags_WidthStretch);
  for (int i = 1; i < columns; ++i) ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed);
  return true;
}

// The curve's legend: every owner of the trace in the curve's order from the top, even if it holds nothing now.
void draw_owners(const MemoryModel& memory, const Stack& stack) {
  if (!begin_memory_table("memory", 3)) return;
  memory_row(palette().text, "allocated", stack.allocated_bytes, 0);
  memory_row(owner_color(memory, memory.owners.size()), "work space of ops", stack.work_space_bytes(),
             stack.allocated_bytes);
  for (size_t i = memory.families.size(); i-- > 0;) family_rows(memory, stack, memory.families[i]);
  ImGui::EndTable();
}

bool holds_values(const trace::MemoryOwner& owner) {
  return owner.kind == trace::MemoryOwnerKind::block || owner.kind == trace::MemoryOwnerKind::outside ||
         owner.kind == trace::MemoryOwnerKind::prefetched;
}

// The tensors that blocks hold. Memory that belongs to no tensor of the plan, or is being copied, has no name.
void draw_tensors(const MemoryModel& memory, const Stack& stack,
                  const std::vector<trace::ResidentActivationTotalsOfOp>& values) {
  int64_t rest = 0;
  for (size_t i = 0; i < memory.owners.size(); ++i)
    if (holds_values(memory.owners[i].owner)) rest += stack.owned_bytes[i];
  if (values.empty() || rest <= 0) return;
  ImGui::SeparatorText("the largest tensors of these");
  if (!begin_memory_table("tensors", 2)) return;
  for (size_t i = 0; i < std::min(values.size(), kMaxTensors); ++i) {
    rest -= values[i].bytes;
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const std::string count = values[i].count > 1 ? " \u00d7" + std::to_string(values[i].count) : "";
    ImGui::TextUnformatted((values[i].name + count).c_str());
    ImGui::TableNextColumn();
    right_text(format_bytes(values[i].bytes));
  }
  ImGui::EndTable();
  if (rest > stack.allocated_bytes / 100)
    faint("the other " + format_bytes(rest) + ": smaller ones, copies in flight, or without a name");
}

// The largest owner or family.
std::string most_of_it(const MemoryModel& memory, const Stack& stack) {
  std::string name = "work space of ops";
  int64_t most = stack.work_space_bytes();
  for (const std::vector<size_t>& family : memory.families) {
    int64_t sum = 0;
    for (const size_t owner : family) sum += stack.owned_bytes[owner];
    if (sum <= most) continue;
    most = sum;
    name = trace::family(memory.owners[family.front()].owner);
  }
  return name +
         (name.ends_with('*') || (name.ends_with('s') && !name.starts_with("work space")) ? " hold " : " holds ") +
         share_text(most, stack.allocated_bytes) + " of it";
}

}  // namespace

float draw_holders(const AppState& state, const MemoryModel& memory) {
  const HeldState& held = *state.held;
  const bool peak = held.time_ns == memory.times_ns[memory.peak];
  const Stack stack = peak ? memory.of_sample(memory.peak) : memory.at(held.time_ns);
  ImGui::SeparatorText(
      ((peak ? "memory at its peak, " : "memory at ") + format_time(static_cast<double>(held.time_ns), 10'000))
          .c_str());
  faint((held.phase.empty() ? "" : "in " + held.phase + "; ") + most_of_it(memory, stack));
  draw_owners(memory, stack);
  const float legend = ImGui::GetCursorPosY();
  draw_tensors(memory, stack, held.values);
  const std::string note =
      peak ? report::peak_note(stack.allocated_bytes, state.current().row().measurement.peak_bytes.allocated) : "";
  if (!note.empty()) faint(note);
  return legend;
}

}  // namespace memtune::gui
