#include "core/answer/result/time_advice.h"

#include <algorithm>
#include <cmath>

namespace memtune::result {
namespace {

struct AdviceRule {
  double TimeShares::*share;
  double least;  // from which on it is said
  const char* what;
  const char* setting;
};

constexpr int64_t kMoreWorkers = 4;

// Where a share is below its bound, the setting gains little: a tenth of a step is near the noise of trials.
constexpr AdviceRule kRules[] = {
    {&TimeShares::data, 0.1, "waiting for data", ""},
    {&TimeShares::evaluation, 0.2, "running the model without gradients (evaluation)", "evaluate less often"},
    {&TimeShares::generation, 0.3, "generation", "a larger batch in generate, or vLLM"},
    {&TimeShares::save, 0.1, "saving", "save less often"},
    {&TimeShares::update, 0.2, "the optimizer", "fused=True if it is not set"},
};

std::string setting_text(const AdviceRule& rule, const TimeShares& shares) {
  if (rule.share != &TimeShares::data) return rule.setting;
  const int64_t now = std::max<int64_t>(0, shares.loader_workers);
  return "DataLoader(num_workers=" + std::to_string(now + kMoreWorkers) + ") (" + std::to_string(now) + " now)";
}

}  // namespace

std::vector<std::string> time_advice(const TimeShares& shares) {
  std::vector<std::string> lines;
  for (const AdviceRule& rule : kRules)
    if (const double share = shares.*rule.share; share >= rule.least)
      lines.push_back(std::string(rule.what) + " takes " + std::to_string(std::lround(100 * share)) +
                      " % of a step: " + setting_text(rule, shares));
  return lines;
}

}  // namespace memtune::result
