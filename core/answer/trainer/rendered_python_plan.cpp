#include "core/answer/trainer/rendered_python_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/answer/trainer/equal_blocks_torch_function_placements.h"
#include "core/answer/trainer/export_comments.h"
#include "core/answer/trainer/python_plan_data.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::trainer {
namespace {

constexpr std::string_view kBegin = "# --- data: ", kEnd = "# --- end of data ";
constexpr std::string_view kInclude = "# [include ";

// "model.layers" of "model.layers.3".
std::string list_path(const std::string& block) { return block.substr(0, block.rfind('.')); }

// Bytes that can be offloaded while the compiled forward of the blocks runs. The forward is estimated as 0.7 of a third
// of a step of `none` without its optimizer. If no trial measured that, returns the bytes that the plan offloads.
int64_t hidden_bytes(const PythonPlanBlockPlacements& treated, const result::TrialResultRow& row,
                     const report::Report& report) {
  double link_bytes_per_ms = 0, forward_ms = 0;
  for (const result::TrialResultRow& other : report.rows) {
    if (!result::worked(other) || !result::same_axes(other, row)) continue;
    link_bytes_per_ms = std::max(link_bytes_per_ms, other.measurement.transfer.link_out_gb_per_s * 1e6);
    if (!result::is_base(other)) continue;
    const double passes_ms = other.measurement.step_ms.median - other.measurement.optimizer_ms;
    forward_ms = 0.7 * passes_ms / 3 / static_cast<double>(std::max<int64_t>(other.passes, 1));
  }
  const auto bytes = static_cast<int64_t>(link_bytes_per_ms * forward_ms);
  return bytes > 0 ? bytes : treated.offloaded_bytes;
}

// Words of the template's marks that hold for a file.
using Words = std::set<std::string_view>;

bool offloads_activations(const TorchFunctionResultAndSavePlacements& places) {
  return places.result == plan::TensorPlacement::host || places.own == plan::TensorPlacement::host;
}

bool offloads_activations(const EqualBlocksTorchFunctionPlacements& block_policy) {
  return offloads_activations(block_policy.others) ||
         std::any_of(block_policy.functions.begin(), block_policy.functions.end(),
                     [](const auto& function) { return offloads_activations(function.second); });
}

bool offloads_activations(const PythonPlanBlockPlacements& treated) {
  return treated.offloads_input ||
         std::ranges::any_of(treated.block_policies,
                             [](const EqualBlocksTorchFunctionPlacements& one) { return offloads_activations(one); });
}

// Appends the lines of a part whose marks hold, with the parts that it includes.
void put_part(std::string_view part, const Words& words, std::vector<std::string>& lines) {
  bool begun = part == "plan", goes = begun;
  std::vector<std::string> own = split(python_part(part), '\n');
  own.pop_back();  // empty text after the last line feed
  for (const std::string& line : own) {
    const std::string mark = trim(line);
    if (!begun) goes = begun = mark.starts_with("# --- ");
    if (mark.starts_with(kInclude)) {
      if (goes) put_part(mark.substr(kInclude.size(), mark.size() - kInclude.size() - 1), words, lines);
    } else if (mark.starts_with("# [")) {
      const std::vector<std::string> wanted = split(mark.substr(3, mark.size() - 4), ' ');
      goes = mark == "# [end]" || std::ranges::all_of(wanted, [&](const std::string& w) { return words.contains(w); });
    } else if (goes && !(line.empty() && lines.size() > 1 && lines.back().empty() && lines.end()[-2].empty())) {
      lines.push_back(line);
    }
  }
}

std::string template_of(const Words& words) {
  std::vector<std::string> lines;
  put_part("plan", words, lines);
  return join(lines, "\n") + "\n";
}

// Throws UsageError for placements that the file does not support.
std::optional<PythonPlanOffloadedStates> states_of(const plan::Plan& plan, const plan::ProgramFacts& facts,
                                                   const result::TrialResultRow& row, const report::Report& report,
                                                   EagerOrCompiledExecution running) {
  if (!plan.offloads_states()) return {};
  const std::string name = "'" + row.measurement.strategy + "' offloads ";
  if (running == EagerOrCompiledExecution::compiled)
    throw UsageError(name + "parameters and optimizer states, which works with eager blocks only: leave out --compile");
  PythonPlanOffloadedStates states{.deferred = row.passes > 1 || report.clips_gradients};
  for (const plan::UnitStatePlacement& place : plan.states) {
    const bool parameters = place.parameters == plan::TensorPlacement::host;
    if (place.unit == plan::kOutsideUnits) {
      if (offloads_outside_parameters(plan))
        throw UsageError(name +
                         "parameters outside of blocks, and the Python file only their optimizer states: export a "
                         "strategy with outside=moments");
      states.outside = place.moments == plan::TensorPlacement::host;
      continue;
    }
    const auto block = std::ranges::find(facts.blocks, place.unit, &plan::BlockModulePath::region);
    if (block == facts.blocks.end()) throw UsageError(name + "'" + place.unit + "', which is not a block");
    const auto number = static_cast<int>(block - facts.blocks.begin());
    if (parameters) states.parameters.push_back(number);
    if (place.moments == plan::TensorPlacement::host) states.moments.push_back(number);
  }
  return states;
}

PythonPlanData data_of(const PythonPlanBlockPlacements& treated, const plan::Plan& plan,
                       const plan::ProgramFacts& facts, const result::TrialResultRow& row, const report::Report& report,
                       EagerOrCompiledExecution running) {
  const plan::TransferSettings& transfer = plan.transfer;
  const bool ahead = transfer.schedule == plan::ActivationOffloadCopyGranularity::block || transfer.prefetch_bytes > 0;
  PythonPlanData data;
  data.compiled = running == EagerOrCompiledExecution::compiled;
  data.offloads_activations = data.compiled || offloads_activations(treated);
  data.name = row.measurement.strategy;
  data.path = list_path(facts.blocks.front().region);
  data.blocks = static_cast<int>(facts.blocks.size());
  data.parameters = facts.parameters;
  data.offloads_input = treated.offloads_input;
  data.regions = treated.regions;
  data.block_policies = treated.block_policies;
  data.saved_min_bytes = plan.saved_min_bytes;
  data.min_bytes = transfer.min_bytes;
  data.stash_bytes = std::min(transfer.stash_bytes, 2 * treated.max_offloaded_bytes);
  data.prefetch_blocks = ahead ? std::max(1, transfer.prefetch_blocks) : 0;
  data.left_bytes = treated.left_bytes;
  data.hidden_bytes = hidden_bytes(treated, row, report);
  data.peak_bytes = result::peak(row);
  data.states = states_of(plan, facts, row, report, running);
  return data;
}

// The template with `data` in place of its sample PLAN.
std::string file_of(const PythonPlanData& data) {
  Words words{data.compiled ? "compiled" : "eager", data.offloads_activations ? "moves" : "stays"};
  words.insert(data.states ? "states" : "resident");
  words.insert(data.offloads_activations || data.states ? "copies" : "still");
  const std::string whole = template_of(words);
  const size_t begin = whole.find('\n', whole.find(kBegin)) + 1;
  return whole.substr(0, begin) + to_python(data) + whole.substr(whole.find(kEnd));
}

std::string head(const std::vector<std::string>& notes, const result::TrialResultRow& row,
                 const report::Report& report) {
  ExportComments comments;
  comments.put("",
               "memtune " + report.version + ": " + row.measurement.strategy + " as Python, for PyTorch 2.6 or newer");
  comments.put_circumstances(report);
  comments.put("measured:  ", measured_text(row, report) +
                                  (row.command.empty() ? "; by memtune's own engines, with the loss and optimizer above"
                                                       : "; with that command"));
  comments.put("with:      ", environment_text(row));
  for (const std::string& note : notes) comments.put("note:      ", note);
  return join(comments.lines(), "\n") + "\n";
}

// The report's notes about this strategy, which begin with its name.
std::vector<std::string> notes_about(const std::string& strategy, const report::Report& report) {
  std::vector<std::string> notes;
  for (const std::string& note : report.notes)
    if (note.starts_with(strategy + ": ")) notes.push_back(note.substr(strategy.size() + 2));
  return notes;
}

// Whether all lines are comments for Python and for an editor, without control characters.
bool is_comments(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  return printable(text) == text && lines.back().empty() &&
         std::all_of(lines.begin(), lines.end() - 1, [](const std::string& line) { return line.starts_with('#'); });
}

}  // namespace

bool offloads_outside_parameters(const plan::Plan& plan) {
  return std::ranges::any_of(plan.states, [](const plan::UnitStatePlacement& place) {
    return place.unit == plan::kOutsideUnits && place.parameters == plan::TensorPlacement::host;
  });
}

RenderedPythonPlan write_python_plan(const plan::Plan& plan, const plan::ProgramFacts& facts,
                                     const result::TrialResultRow& row, const report::Report& report,
                                     EagerOrCompiledExecution running) {
  if (row.measurement.outcome != result::TrialOutcome::ok)
    throw UsageError("'" + row.measurement.strategy + "' did not work here (" + to_string(row.measurement.outcome) +
                     "): export a strategy that did");
  const PythonPlanBlockPlacements treated = make_block_policies(plan, facts);
  return {head(treated.notes, row, report) + file_of(data_of(treated, plan, facts, row, report, running)),
          treated.notes};
}

RegeneratedPythonPlan copy_python_plan(const std::string& text, const result::TrialResultRow& row,
                                       const report::Report& report) {
  const std::string file = file_of(read_python_data(text));
  const bool same = text.ends_with(file) && is_comments(text.substr(0, text.size() - file.size()));
  return {head(notes_about(row.measurement.strategy, report), row, report) + file, same};
}

}  // namespace memtune::trainer
