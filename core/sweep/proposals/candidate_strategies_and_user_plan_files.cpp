#include "core/sweep/proposals/candidate_strategies_and_user_plan_files.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/rules/strategy.h"

namespace memtune::sweep {
namespace {

using plan::HandWrittenPlanFile;
using plan::Plan;
using plan::ProgramFacts;
using plan::Strategy;

// Applies `action` to all of `items` and collects the errors.
template <typename Items, typename Action>
void try_all(const Items& items, std::vector<std::string>& errors, const Action& action) {
  for (const auto& item : items) try {
      action(item);
    } catch (const UsageError& error) {
      errors.emplace_back(error.what());
    }
}

void check_training(const CandidateStrategyOrUserPlanFile& candidate, const plan::TrainingSettings& training) {
  if (candidate.uses_disk() && training.scratch.empty())
    throw UsageError("'" + candidate.name() + "' places values on disk: --scratch DIR has to say where");
  if (!candidate.offloads_states()) return;
  const std::string name = "'" + candidate.name() + "' offloads optimizer states, and ";
  if (training.ranks > 1) throw UsageError(name + "works on one GPU: for --ranks use --shard-offload");
  if (training.optimizer.starts_with("paged_"))
    throw UsageError(name + training.optimizer + " keeps them in host memory by itself: use another --optimizer");
}

}  // namespace

std::string CandidateStrategyOrUserPlanFile::name() const {
  if (const auto* strategy = std::get_if<Strategy>(&rule_)) return to_string(*strategy);
  return std::get<HandWrittenPlanFile>(rule_).name();
}

bool CandidateStrategyOrUserPlanFile::offloads_states() const {
  return std::visit([](const auto& rule) { return rule.offloads_states(); }, rule_);
}

bool CandidateStrategyOrUserPlanFile::uses_disk() const {
  return std::visit([](const auto& rule) { return rule.uses_disk(); }, rule_);
}

Plan CandidateStrategyOrUserPlanFile::make_plan(const ProgramFacts& facts) const {
  if (const auto* strategy = std::get_if<Strategy>(&rule_)) return plan::make_plan(*strategy, facts);
  return std::get<HandWrittenPlanFile>(rule_).make_plan(facts);
}

CandidateStrategiesAndUserPlanFiles::CandidateStrategiesAndUserPlanFiles(const std::vector<std::string>& strategies,
                                                                         const std::vector<HandWrittenPlanFile>& plans,
                                                                         const plan::TrainingSettings& training,
                                                                         const std::vector<std::string>& fallback) {
  std::vector<std::string> errors;
  try_all(strategies, errors, [this](const std::string& text) { add(text); });
  try_all(plans, errors, [this](const HandWrittenPlanFile& file) { add(file); });
  try_all(all_, errors, [&](const CandidateStrategyOrUserPlanFile& candidate) { check_training(candidate, training); });
  if (!errors.empty()) throw UsageError(join(errors, "; "));
  for (const std::string& text : fallback) try {
      const CandidateStrategyOrUserPlanFile candidate(Strategy::parse(text));
      check_training(candidate, training);
      if (!has(candidate.name())) fallback_.push_back(candidate);
    } catch (const UsageError&) {  // does not go with the training
    }
  std::stable_partition(all_.begin(), all_.end(),
                        [](const CandidateStrategyOrUserPlanFile& candidate) { return candidate.name() == "none"; });
}

bool CandidateStrategiesAndUserPlanFiles::offload_states() const {
  return std::ranges::any_of(all_, &CandidateStrategyOrUserPlanFile::offloads_states) ||
         std::ranges::any_of(fallback_, &CandidateStrategyOrUserPlanFile::offloads_states);
}

void CandidateStrategiesAndUserPlanFiles::add(const std::string& text) {
  CandidateStrategyOrUserPlanFile candidate(Strategy::parse(text));
  const std::string name = candidate.name();
  if (!has(name)) all_.push_back(std::move(candidate));
  const auto [first, is_new] = texts_.try_emplace(name, text);
  if (!is_new && first->second != text)
    notes_.push_back("'" + first->second + "' and '" + text + "' are one trial: " + name);
}

void CandidateStrategiesAndUserPlanFiles::add(const HandWrittenPlanFile& file) {
  if (has(file.name()))
    throw UsageError("two plans are called '" + file.name() + "'; give one of them another \"name\"");
  all_.emplace_back(file);
}

bool CandidateStrategiesAndUserPlanFiles::has(const std::string& name) const {
  return std::ranges::find(all_, name, &CandidateStrategyOrUserPlanFile::name) != all_.end();
}

}  // namespace memtune::sweep
