#include "core/answer/report/text/plans_by_budget_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/answer/report/text/columns.h"
#include "core/answer/report/text/plan_reasons_text.h"
#include "core/answer/report/text/plan_table.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/utf8.h"

namespace memtune::report {
namespace {

using nlohmann::json;

// The rung with the next larger budget, in any order; nullptr: none.
const BestPlanForBudget* above(const BestPlanForBudget& rung, const std::vector<BestPlanForBudget>& budget_ladder) {
  const BestPlanForBudget* found = nullptr;
  for (const BestPlanForBudget& other : budget_ladder)
    if (other.budget_bytes > rung.budget_bytes && (!found || other.budget_bytes < found->budget_bytes)) found = &other;
  return found;
}

// ms saved per additional GiB, from this rung to the next one. None if this is the highest, or needs no more memory
// above.
std::optional<double> price(const BestPlanForBudget& rung, const std::vector<BestPlanForBudget>& budget_ladder) {
  const BestPlanForBudget* more = above(rung, budget_ladder);
  if (!rung.step || !more || !more->step) return {};
  const planner::StepPrediction &here = rung.step->predicted, &there = more->step->predicted;
  const double gib = double(there.required_bytes - here.required_bytes) / double(1 << 30);
  return gib > 0 ? std::optional((here.step_ms - there.step_ms) / gib) : std::nullopt;
}

std::vector<std::string> cells(const BestPlanForBudget& rung, const PlansByBudgetReport& answer) {
  if (!rung.step) return {format_bytes(rung.budget_bytes)};
  const planner::StepPrediction& step = rung.step->predicted;
  const auto saved = price(rung, answer.budget_ladder);
  return {format_bytes(rung.budget_bytes),
          fixed(step.step_ms, 1),
          fixed(rung.step->least_ms, 1),
          fixed(step.step_ms / answer.none_ms, 3),
          format_bytes(step.peak_bytes),
          format_bytes(step.required_bytes),
          fixed(step.recompute_ms, 1),
          format_bytes(step.out_bytes),
          saved ? fixed(*saved, 2) : "",
          rung.range ? fixed(rung.range->from_ms, 1) + " to " + fixed(rung.range->to_ms, 1) : "",
          format_bytes(step.disk_peak_bytes)};
}

std::string table(const PlansByBudgetReport& answer) {
  const std::vector<BestPlanForBudget>& rungs = answer.budget_ladder;
  std::vector<report::TableColumn> columns;
  for (const char* head : {"budget", "step ms", "least ms", "× none", "allocated", "on the device", "recompute ms",
                           "offloaded", "ms a GiB more", "from, to", "on disk"})
    columns.push_back({head});
  for (const BestPlanForBudget& rung : rungs) report::add_row(columns, cells(rung, answer));
  const auto on_disk = [](const BestPlanForBudget& rung) {
    return rung.step && rung.step->predicted.disk_peak_bytes > 0;
  };
  if (std::ranges::none_of(rungs, on_disk)) columns.pop_back();
  if (std::ranges::none_of(rungs, [](const BestPlanForBudget& rung) { return rung.range.has_value(); }))
    columns.erase(columns.begin() + 9);
  const auto has_overhead = [](const BestPlanForBudget& rung) {
    return rung.step && rung.step->predicted.required_bytes != rung.step->predicted.peak_bytes;
  };
  if (std::ranges::none_of(rungs, has_overhead)) {
    columns[4].head = "peak";
    columns.erase(columns.begin() + 5);
  }
  std::string text = printable_line(answer.title) + ", predicted: a step of none takes " + ms_text(answer.none_ms) +
                     (answer.strategy == "none" ? "" : ", predicted from " + answer.strategy) + "\n\n" +
                     report::heads_text(columns);
  for (size_t i = 0; i < rungs.size(); ++i) {
    text += report::row_text(columns, i);
    if (!rungs[i].step)
      text.insert(text.size() - 1, "  no plan fits; the smallest takes " + format_bytes(answer.least_bytes));
  }
  return text + "\n least ms: lower bound of the predicted step time of all plans within the budget\n";
}

json predicted(const BestPlanForBudget& rung) {
  const planner::StepPrediction& step = rung.step->predicted;
  json told = {{"step_ms", step.step_ms},
               {"least_ms", rung.step->least_ms},
               {"peak_bytes", step.peak_bytes},
               {"required_bytes", step.required_bytes},
               {"recompute_ms", step.recompute_ms},
               {"out_bytes", step.out_bytes},
               {"in_bytes", step.in_bytes},
               {"wait_ms", step.wait_ms},
               {"host_peak_bytes", step.host_peak_bytes},
               {"disk_write_bytes", step.disk_write_bytes},
               {"disk_read_bytes", step.disk_read_bytes},
               {"disk_peak_bytes", step.disk_peak_bytes}};
  if (rung.range) told.update({{"step_ms_from", rung.range->from_ms}, {"step_ms_to", rung.range->to_ms}});
  return told;
}

}  // namespace

result::TrialPrediction BestPlanForBudget::predicted() const {
  return {step->predicted.step_ms, step->predicted.peak_bytes, step->least_ms, 0, 0, step->predicted.required_bytes};
}

std::string to_text(const PlansByBudgetReport& answer, const plan::ProgramFacts& program, int width) {
  std::string text = table(answer);
  for (const BestPlanForBudget& rung : answer.budget_ladder) {
    if (!rung.reasons) continue;
    const std::string title = answer.budget_ladder.size() > 1 ? "why, under " + format_bytes(rung.budget_bytes) : "why";
    text += "\n " + title + "\n" + reasons_text(*rung.reasons, rung.budget_bytes, width);
  }
  if (answer.budget_ladder.size() == 1 && answer.budget_ladder.front().step)
    text += "\n" + summary_table(plan::summarize(answer.budget_ladder.front().step->plan, program));
  for (const std::string& note : answer.notes) {
    text += "\n";
    for (const std::string& line : wrap(note, width - 1)) text += " " + line + "\n";
  }
  return memtune::printable(text);  // the run may be untrusted
}

json to_json(const PlansByBudgetReport& answer) {
  json list = json::array();
  for (const BestPlanForBudget& rung : answer.budget_ladder) {
    json one = {{"budget_bytes", rung.budget_bytes}, {"fits", rung.step.has_value()}};
    if (rung.step) one["predicted"] = predicted(rung);
    if (rung.reasons) one["reasons"] = reasons_json(*rung.reasons);
    list.push_back(one);
  }
  return {{"model", answer.title},
          {"recorded", answer.strategy},
          {"none_ms", answer.none_ms},
          {"least_bytes", answer.least_bytes},
          {"plans", list},
          {"notes", answer.notes}};
}

}  // namespace memtune::report
