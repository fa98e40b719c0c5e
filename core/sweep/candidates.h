// What a sweep tries: strategies, and plans that a person wrote.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/plan/plan_file.h"

namespace memtune::sweep {

class Candidate {
 public:
  explicit Candidate(config::Strategy strategy) : rule_(std::move(strategy)) {}
  explicit Candidate(plan::PlanFile file) : rule_(std::move(file)) {}

  std::string name() const;  // the strategy's canonical form, or the plan's name
  bool uses_disk() const;
  config::Plan make_plan(const config::ProgramFacts& facts) const;  // UsageError for what the model does not have

 private:
  std::variant<config::Strategy, plan::PlanFile> rule_;
};

class Candidates {
 public:
  // Each once, `none` first: the others are compared with it. Throws one UsageError with all that is wrong, so that a
  // person mends it in one go.
  Candidates(const std::vector<std::string>& strategies, const std::vector<plan::PlanFile>& plans, bool has_scratch);

  const std::vector<Candidate>& all() const { return all_; }
  // That a strategy is given in two spellings, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void add(const std::string& text);
  void add(const plan::PlanFile& file);
  bool has(const std::string& name) const;

  std::vector<Candidate> all_;
  std::map<std::string, std::string> texts_;  // of a strategy's name: how it was written first
  std::vector<std::string> notes_;
};

}  // namespace memtune::sweep
