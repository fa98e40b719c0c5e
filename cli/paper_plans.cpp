#include "cli/paper_plans.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/app.h"
#include "cli/finished_run.h"
#include "cli/flags.h"
#include "cli/other_machine.h"
#include "cli/plan_table.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/planner/planner.h"
#include "core/sweep/plan_proposer.h"

namespace memtune::cli {
namespace {

using nlohmann::json;
using planner::PlannedStep;
using planner::Planner;

constexpr int kRungs = 8;  // of budgets, where none is given
constexpr int kNoteWidth = 110;

// A budget and the best plan that keeps it; none: no plan does.
struct Rung {
  int64_t budget_bytes = 0;
  std::optional<PlannedStep> step;
  std::optional<OtherMachine::Range> range;  // of its time, on another machine
};

struct Source {
  config::ProgramFacts program;
  config::StepCosts costs;
  std::string title;
  std::string strategy;  // whose step was recorded
  config::TrainingSettings training;
  std::string device;  // that it was measured on; "": not known
};

// The first trial of the run that recorded what its step costs.
Source read_source(const std::string& path) {
  const sweep::RunDirectory directory(path);
  const sweep::SweepRecord record = directory.read_record();
  if (record.command)
    throw UsageError("'" + path + "' is a sweep of a command: memtune cannot give it plans of its own");
  for (const sweep::TrialSpec& trial : record.trials) {
    const sweep::TrialSpec& first = record.trials.front();  // of other settings the facts are not known
    if (trial.batch != first.batch || trial.sequence != first.sequence) continue;
    if (const auto costs = sweep::read_costs(directory / trial.folder, record.facts.program)) {
      const auto measured = directory.read_measurement(trial.folder);
      std::string title = record.model + (measured ? " · " + measured->device : "");
      if (trial.batch) title += ", batch " + std::to_string(*trial.batch);
      if (trial.sequence) title += ", sequence " + std::to_string(*trial.sequence);
      return {record.facts.program, *costs, title, trial.strategy, record.request.training,
              measured ? measured->device : ""};
    }
  }
  throw UsageError("no trial in '" + path +
                   "' has recorded what its step costs; memtune sweep --strategy none with another "
                   "--out does, of a model whose steps run the same ops, and sweep --budget where none does not fit");
}

std::vector<int64_t> budgets_of(const PaperFlags& flags, int64_t most, int64_t least) {
  std::vector<int64_t> budgets;
  for (const std::string& text : flags.budgets) budgets.push_back(bytes_flag("--budget", text));
  if (!budgets.empty()) return budgets;
  for (int i = 0; i < kRungs; ++i) budgets.push_back(most - (most - least) * i / (kRungs - 1));
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

std::string name_of(int64_t budget_bytes) { return "plan:" + format_bytes(budget_bytes); }

// ms that a GiB more saves, from this rung to the one above; nothing where it saves none or is the highest.
std::optional<double> price(const Rung& rung, const Rung& above) {
  if (!rung.step || !above.step) return {};
  const double gib = double(above.step->predicted.peak_bytes - rung.step->predicted.peak_bytes) / double(1 << 30);
  return gib > 0 ? std::optional((rung.step->predicted.step_ms - above.step->predicted.step_ms) / gib) : std::nullopt;
}

std::string cells(const Rung& rung, double none_ms, int64_t least_bytes) {
  if (!rung.step)
    return pad_left(format_bytes(rung.budget_bytes), 12) + "  no plan keeps it; the least takes " +
           format_bytes(least_bytes);
  const planner::StepPrediction& step = rung.step->predicted;
  return pad_left(format_bytes(rung.budget_bytes), 12) + pad_left(fixed(step.step_ms, 1), 11) +
         pad_left(fixed(step.step_ms / none_ms, 3), 9) + pad_left(format_bytes(step.peak_bytes), 13) +
         pad_left(fixed(step.recompute_ms, 1), 14) + pad_left(format_bytes(step.out_bytes), 13);
}

// Otherwise the figures of none are paper as all others.
bool is_measured(const Source& source) { return source.strategy == "none"; }

std::string table(const Source& source, const std::vector<Rung>& rungs, int64_t least_bytes) {
  const bool ranged = std::ranges::any_of(rungs, [](const Rung& rung) { return rung.range.has_value(); });
  std::string text = source.title + ", on paper: a step of none takes " + ms_text(source.costs.step_ms) +
                     (is_measured(source) ? "" : ", worked out from " + source.strategy) + "\n\n" +
                     "      budget    step ms   × none         peak  recompute ms        moved   ms a GiB more" +
                     (ranged ? "      at least, most" : "") + "\n";
  for (size_t i = 0; i < rungs.size(); ++i) {
    const auto saved = i > 0 ? price(rungs[i], rungs[i - 1]) : std::nullopt;
    text += cells(rungs[i], source.costs.step_ms, least_bytes);
    if (saved || rungs[i].range) text += pad_left(saved ? fixed(*saved, 2) : "", 16);
    if (const auto& range = rungs[i].range)
      text += pad_left(fixed(range->least_ms, 1) + " to " + fixed(range->most_ms, 1), 22);
    text += "\n";
  }
  return text;
}

// Of one plan alone: what waits where.
std::string places(const Source& source, const std::vector<Rung>& rungs) {
  if (rungs.size() != 1 || !rungs.front().step) return "";
  return "\n" + summary_table(plan::summarize(rungs.front().step->plan, source.program));
}

std::string told(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) {
    text += "\n";
    for (const std::string& line : wrap(note, kNoteWidth)) text += line + "\n";
  }
  return text;
}

json answer(const Source& source, const std::vector<Rung>& rungs, int64_t least_bytes) {
  json list = json::array();
  for (const Rung& rung : rungs) {
    json one = {{"budget_bytes", rung.budget_bytes}, {"fits", rung.step.has_value()}};
    if (rung.step) {
      const planner::StepPrediction& step = rung.step->predicted;
      one["predicted"] = {{"step_ms", step.step_ms},
                          {"peak_bytes", step.peak_bytes},
                          {"recompute_ms", step.recompute_ms},
                          {"out_bytes", step.out_bytes},
                          {"in_bytes", step.in_bytes},
                          {"wait_ms", step.wait_ms},
                          {"host_peak_bytes", step.host_peak_bytes}};
      if (rung.range) {
        one["predicted"]["least_step_ms"] = rung.range->least_ms;
        one["predicted"]["most_step_ms"] = rung.range->most_ms;
      }
    }
    list.push_back(one);
  }
  return {{"model", source.title},
          {"recorded", source.strategy},
          {"none_ms", source.costs.step_ms},
          {"least_bytes", least_bytes},
          {"plans", list}};
}

}  // namespace

int plan_on_paper(const PaperFlags& flags) {
  if (!flags.output.empty() && flags.budgets.size() != 1)
    throw UsageError("--write writes one plan: it goes with one --budget");
  if (flags.machine.machine.empty() && !flags.machine.from.empty())
    throw UsageError("--from-machine says which machine measured: it goes with --machine, the one to plan for");
  Source source = read_source(flags.run);
  std::optional<OtherMachine> other;
  if (!flags.machine.machine.empty()) {
    other.emplace(flags.machine, source.program, source.costs, source.training, source.device);
    source.costs = other->costs();
    source.title += ", " + other->title();
  }
  const Planner planner(source.program, source.costs);
  const int64_t host_bytes = flags.host_budget.empty() ? 0 : bytes_flag("--host-budget", flags.host_budget);
  int64_t most = planner.predict({}).peak_bytes;
  if (other) most = std::min(most, other->memory_bytes());
  std::vector<Rung> rungs;
  const int64_t least = planner.least_memory(host_bytes, "least").predicted.peak_bytes;
  const std::vector<int64_t> budgets = budgets_of(flags, most, std::min(least, most));
  for (const int64_t budget : budgets) {
    rungs.push_back({budget, planner.plan({budget, host_bytes}, name_of(budget)), {}});
    if (Rung& rung = rungs.back(); other && rung.step) rung.range = other->range(rung.step->plan);
  }
  const std::vector<std::string> notes = other ? other->notes(budgets) : std::vector<std::string>();
  if (flags.json.empty()) {
    write_output("-", table(source, rungs, least) + places(source, rungs) + told(notes));
  } else {
    json told = answer(source, rungs, least);
    if (other) told.update({{"machines", other->to_json()}, {"notes", notes}});
    write_output(flags.json, print_json(told, 2) + "\n");
  }
  const bool fits = std::ranges::any_of(rungs, [](const Rung& rung) { return rung.step.has_value(); });
  if (!flags.output.empty() && fits) write_output(flags.output, json(rungs.front().step->plan).dump(1, '\t') + "\n");
  return fits ? kDone : kFailed;
}

}  // namespace memtune::cli
