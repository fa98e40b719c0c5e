#include "core/answer/result/time_advice.h"

#include <algorithm>
#include <cmath>

namespace memtune::result {
namespace {

bool always(const TrainingPhaseTimeShares&) { return true; }
bool evaluates(const TrainingPhaseTimeShares& shares) { return shares.evaluates; }
bool trains_by_references(const TrainingPhaseTimeShares& shares) { return !shares.evaluates; }
bool is_unfused(const TrainingPhaseTimeShares& shares) { return shares.unfused; }
bool has_loader(const TrainingPhaseTimeShares& shares) { return shares.loader_workers >= 0; }

struct AdviceRule {
  double TrainingPhaseTimeShares::*share;
  double least;  // from which on it is said
  const char* what;
  const char* setting;  // how profiles of trainers call it
  const char* own;      // how a script without a trainer writes it
  bool (*holds)(const TrainingPhaseTimeShares&) = always;
};

constexpr int64_t kMoreWorkers = 4;

// Where a share is below its bound, the setting gains little: a tenth of a step is near the noise of trials.
constexpr AdviceRule kRules[] = {
    {&TrainingPhaseTimeShares::data, 0.1, "waiting for data", "workers", "num_workers of the DataLoader", has_loader},
    {&TrainingPhaseTimeShares::evaluation, 0.2, "evaluation", "evaluation_interval", "evaluate less often", evaluates},
    {&TrainingPhaseTimeShares::evaluation, 0.2, "running models without gradients, for the training itself,",
     "references", "results that do not change are computed once and kept", trains_by_references},
    {&TrainingPhaseTimeShares::generation, 0.3, "generation", "generation", "a larger batch in generate, or vLLM"},
    {&TrainingPhaseTimeShares::save, 0.1, "saving", "save_interval", "save less often"},
    {&TrainingPhaseTimeShares::update, 0.1, "the optimizer", "fused", "fused=True", is_unfused},
};

std::string setting_text(const AdviceRule& rule, const TrainingPhaseTimeShares& shares) {
  const auto own = std::ranges::find(shares.words, rule.setting, &SettingInTrainerSyntax::setting);
  std::string text = own == shares.words.end() ? rule.own : own->text;
  if (rule.share == &TrainingPhaseTimeShares::data)
    text += ", " + std::to_string(shares.loader_workers + kMoreWorkers) + " instead of " +
            std::to_string(shares.loader_workers);
  return text;
}

}  // namespace

std::vector<std::string> time_advice(const TrainingPhaseTimeShares& shares) {
  std::vector<std::string> lines;
  for (const AdviceRule& rule : kRules)
    if (const double share = shares.*rule.share; share >= rule.least && rule.holds(shares))
      lines.push_back(std::string(rule.what) + " takes " + std::to_string(std::lround(100 * share)) +
                      " % of a step: " + setting_text(rule, shares));
  return lines;
}

}  // namespace memtune::result
