#include "core/answer/report/text/plan_reasons_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/plan/rules/op_class.h"

namespace memtune::report {
namespace {

using nlohmann::json;
using planner::PeakLocation;
using planner::PlanReasons;
using planner::SamePolicyBlocksPlanExplanation;

constexpr size_t kNames = 6;                  // ops per line
constexpr int kMinLine = 50, kMaxLine = 120;  // characters per line
constexpr double kMinWait = 0.05;             // exposed copy time per step worth reporting, in ms

std::string parts_text(const SamePolicyBlocksPlanExplanation& parts) {
  if (parts.where == SamePolicyBlocksPlanExplanation::Where::before) return "before the blocks";
  if (parts.where == SamePolicyBlocksPlanExplanation::Where::behind) return "behind the blocks";
  return (parts.blocks.size() == 1 ? "block " : "blocks ") + ranges_text(parts.blocks);
}

std::string names_text(std::vector<std::string> names) {
  const size_t more = names.size() > kNames ? names.size() - kNames : 0;
  names.resize(names.size() - more);
  return join(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

std::string recomputed_text(const SamePolicyBlocksPlanExplanation& parts) {
  return "recomputed: " + names_text(parts.recomputed) + " (" + short_ms_text(parts.recompute_ms) + " free " +
         format_bytes(parts.freed_bytes) + ")";
}

std::string offloaded_text(const SamePolicyBlocksPlanExplanation& parts) {
  return "offloaded: " + names_text(parts.moved) + " (" + format_bytes(parts.offloaded_bytes) +
         (parts.wait_ms < kMinWait ? ", hidden behind compute" : ", compute waits " + ms_text(parts.wait_ms)) + ")";
}

std::string kept_text(const SamePolicyBlocksPlanExplanation& parts) {
  const std::string kept = "kept: " + format_bytes(parts.kept_bytes);
  if (parts.next_bytes == 0) return kept + " (nothing reduces it)";
  return kept + " (the budget has room; " + format_bytes(parts.next_bytes) + " of it would cost " +
         short_ms_text(parts.next_ms) + " to recompute)";
}

std::string why(const SamePolicyBlocksPlanExplanation& parts) {
  std::vector<std::string> reasons;
  if (!parts.recomputed.empty()) reasons.push_back(recomputed_text(parts));
  if (!parts.moved.empty()) reasons.push_back(offloaded_text(parts));
  if (parts.kept_bytes > 0) reasons.push_back(kept_text(parts));
  return join(reasons, "; ");
}

std::string peak_text(const PeakLocation& peak, int64_t budget_bytes) {
  static constexpr const char* kPasses[] = {"forward", "backward", "update of the weights"};
  std::string text = "the peak, " + format_bytes(peak.bytes) + ", is in the " + kPasses[static_cast<int>(peak.pass)];
  if (peak.block >= 0) text += " of block " + std::to_string(peak.block);
  if (!peak.op.empty())
    text += " (" + (peak.region.empty() ? "" : peak.region + ", ") + plan::strip_op_namespace(peak.op) + ")";
  return text + ", " + format_bytes(std::max<int64_t>(0, budget_bytes - peak.bytes)) + " below the budget";
}

json recomputed_json(const SamePolicyBlocksPlanExplanation& parts) {
  return {{"ops", parts.recomputed}, {"ms", parts.recompute_ms}, {"freed_bytes", parts.freed_bytes}};
}

}  // namespace

std::string ranges_text(const std::vector<int>& numbers) {
  std::vector<std::string> ranges;
  for (size_t first = 0, next = 0; first < numbers.size(); first = next) {
    while (next < numbers.size() && numbers[next] - numbers[first] == static_cast<int>(next - first)) ++next;
    const std::string from = std::to_string(numbers[first]), to = std::to_string(numbers[next - 1]);
    ranges.push_back(from == to ? from : from + "-" + to);
  }
  return join(ranges, ", ");
}

std::string reasons_text(const PlanReasons& reasons, int64_t budget_bytes, int width) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const SamePolicyBlocksPlanExplanation& parts : reasons.parts) lines.emplace_back(parts_text(parts), why(parts));
  lines.emplace_back("limited by", peak_text(reasons.peak, budget_bytes));
  width = std::clamp(width, kMinLine, kMaxLine);
  std::string text;
  for (const auto& [head, said] : lines) {
    constexpr int kIndent = 4;
    const std::string line = head + ": " + said;
    bool first = true;
    for (const std::string& piece : wrap(line, width - kIndent)) {
      text += std::string(std::exchange(first, false) ? kIndent - 2 : kIndent, ' ') + piece + "\n";
    }
  }
  return text;
}

json reasons_json(const PlanReasons& reasons) {
  static constexpr const char* kWhere[] = {"before", "blocks", "behind"};
  static constexpr const char* kPasses[] = {"forward", "backward", "update"};
  json list = json::array();
  for (const SamePolicyBlocksPlanExplanation& parts : reasons.parts) {
    json one = {{"where", kWhere[static_cast<int>(parts.where)]},
                {"blocks", parts.blocks},
                {"kept", {{"bytes", parts.kept_bytes}, {"next_bytes", parts.next_bytes}, {"next_ms", parts.next_ms}}}};
    if (!parts.recomputed.empty()) one["made_again"] = recomputed_json(parts);
    if (!parts.moved.empty())
      one["moved"] = {{"ops", parts.moved}, {"bytes", parts.offloaded_bytes}, {"wait_ms", parts.wait_ms}};
    list.push_back(one);
  }
  const PeakLocation& peak = reasons.peak;
  json binds = {{"pass", kPasses[static_cast<int>(peak.pass)]},
                {"region", peak.region},
                {"op", peak.op},
                {"peak_bytes", peak.bytes}};
  if (peak.block >= 0) binds["block"] = peak.block;
  return {{"parts", list}, {"binds", binds}};
}

}  // namespace memtune::report
