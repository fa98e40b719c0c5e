// The candidates of a sweep: strategies, and plans from the user's files.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/plan/request/trial_request.h"
#include "core/plan/rules/hand_written_plan_file.h"

namespace memtune::sweep {

class CandidateStrategyOrUserPlanFile {
 public:
  explicit CandidateStrategyOrUserPlanFile(plan::Strategy strategy) : rule_(std::move(strategy)) {}
  explicit CandidateStrategyOrUserPlanFile(plan::HandWrittenPlanFile file) : rule_(std::move(file)) {}

  std::string name() const;  // the strategy's canonical form, or the plan's name
  bool uses_disk() const;
  bool offloads_states() const;
  plan::Plan make_plan(const plan::ProgramFacts& facts) const;  // throws UsageError for parts that the model lacks

 private:
  std::variant<plan::Strategy, plan::HandWrittenPlanFile> rule_;
};

class CandidateStrategiesAndUserPlanFiles {
 public:
  // Removes duplicates and puts `none` first, because the others are compared with it. Throws one UsageError with all
  // problems, so that the user can fix them at once.
  CandidateStrategiesAndUserPlanFiles(const std::vector<std::string>& strategies,
                                      const std::vector<plan::HandWrittenPlanFile>& plans,
                                      const plan::TrainingSettings& training,
                                      const std::vector<std::string>& fallback = {});

  const std::vector<CandidateStrategyOrUserPlanFile>& all() const { return all_; }
  // Strategies for a device that has no room for the others, those that go with the training. If there are any, plans
  // may offload parameters and optimizer states.
  const std::vector<CandidateStrategyOrUserPlanFile>& fallback() const { return fallback_; }
  // One note for each strategy that is given in two spellings.
  const std::vector<std::string>& notes() const { return notes_; }
  bool offload_states() const;  // one at least does, the fallback included

 private:
  void add(const std::string& text);
  void add(const plan::HandWrittenPlanFile& file);
  bool has(const std::string& name) const;

  std::vector<CandidateStrategyOrUserPlanFile> all_, fallback_;
  std::map<std::string, std::string> texts_;  // name of a strategy -> its first spelling
  std::vector<std::string> notes_;
};

}  // namespace memtune::sweep
