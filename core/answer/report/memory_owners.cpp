#include "core/answer/report/memory_owners.h"

#include <algorithm>

#include "core/answer/report/memory_lines.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::StepMemoryBreakdown;
using result::StepMemoryCategory;
using result::StepMemoryOfCategory;
using result::TrialResultRow;

constexpr size_t kModulesShown = 4;

std::string name_of(StepMemoryCategory kind) {
  switch (kind) {
    case StepMemoryCategory::optimizer: return "optimizer states";
    case StepMemoryCategory::logits: return "logits and loss";
    case StepMemoryCategory::attention: return "attention scores";
    case StepMemoryCategory::workspace: return "library workspace";
    case StepMemoryCategory::rounding: return "rounding of blocks";
    case StepMemoryCategory::parameters:
    case StepMemoryCategory::gradients:
    case StepMemoryCategory::buffers:
    case StepMemoryCategory::inputs:
    case StepMemoryCategory::activations:
    case StepMemoryCategory::temporaries:
    case StepMemoryCategory::other: break;
  }
  return to_string(kind);
}

std::string phase_text(const StepMemoryBreakdown& memory) {
  switch (memory.phase) {
    case result::PeakMemoryTrainingPhase::forward: return memory.saved_only ? "" : ", peak in forward";
    case result::PeakMemoryTrainingPhase::backward: return ", peak in backward";
    case result::PeakMemoryTrainingPhase::update: return ", peak in the update";
    case result::PeakMemoryTrainingPhase::no_gradients:
    case result::PeakMemoryTrainingPhase::other: break;
  }
  return "";
}

std::string modules_text(const StepMemoryBreakdown& memory) {
  std::vector<std::string> parts;
  for (const result::SameNamedModulesPeakMemory& each : memory.modules) {
    if (parts.size() == kModulesShown) break;
    parts.push_back(each.name + (each.count > 1 ? " (" + std::to_string(each.count) + ")" : "") + " " +
                    format_bytes(each.bytes) +
                    (each.saved_bytes > 0 ? ", activations " + format_bytes(each.saved_bytes) : ""));
  }
  return join(parts, "; ");
}

}  // namespace

const TrialResultRow* memory_row(const Report& report) {
  const auto recommended = std::ranges::find_if(report.rows, &TrialResultRow::recommended);
  const TrialResultRow* row = recommended != report.rows.end() ? &*recommended
                              : report.rows.size() == 1        ? &report.rows.front()
                                                               : nullptr;
  return row && row->measurement.memory ? row : nullptr;
}

std::vector<TableColumn> owner_columns(const StepMemoryBreakdown& memory) {
  std::vector<TableColumn> columns = {{"memory of", TableColumn::kAlways, true, {}, 1},
                                      {"before", TableColumn::kAlways},
                                      {memory.saved_only ? "before backward" : "peak", TableColumn::kAlways},
                                      {"share", TableColumn::kAlways},
                                      {"after", TableColumn::kAlways}};
  std::vector<StepMemoryOfCategory> owners = memory.owners;
  std::ranges::stable_sort(owners, std::greater<>(), &StepMemoryOfCategory::peak_bytes);
  StepMemoryOfCategory sum;
  for (const StepMemoryOfCategory& each : owners) {
    sum.before_bytes += each.before_bytes;
    sum.peak_bytes += each.peak_bytes;
    sum.end_bytes += each.end_bytes;
  }
  const auto put = [&](const std::string& name, const StepMemoryOfCategory& owner) {
    const double share =
        100 * static_cast<double>(owner.peak_bytes) / static_cast<double>(std::max<int64_t>(1, sum.peak_bytes));
    add_row(columns, {name, format_bytes(owner.before_bytes), format_bytes(owner.peak_bytes), fixed(share, 1) + " %",
                      format_bytes(owner.end_bytes)});
  };
  for (const StepMemoryOfCategory& each : owners) put(name_of(each.kind), each);
  put("sum", sum);
  return columns;
}

std::string owner_title(const StepMemoryBreakdown& memory) {
  return "Memory of step " + std::to_string(memory.step) + " by owner" + phase_text(memory);
}

std::vector<std::string> owner_texts(const StepMemoryBreakdown& memory) {
  std::vector<std::string> texts;
  if (const std::string modules = modules_text(memory); !modules.empty()) texts.push_back("Modules: " + modules + ".");
  if (const std::string lines = lines_text(memory.lines); !lines.empty())
    texts.push_back("Beside what lasts, most by: " + lines + ".");
  if (memory.saved_only)
    texts.push_back(
        "On a CPU no allocator reports its blocks: activations are the tensors that autograd saved in forward. "
        "Temporaries, and memory of libraries and of the interpreter, are not known.");
  if (!memory.complete)
    texts.push_back("The step had more allocations than were kept: what was held before it is not known.");
  return texts;
}

}  // namespace memtune::report
