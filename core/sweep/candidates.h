// What a sweep tries, by name: strategies, and plans that a person wrote.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/plan/plan_file.h"

namespace memtune::sweep {

class Candidates {
 public:
  Candidates(const std::vector<std::string>& strategies, const std::vector<plan::PlanFile>& plans);

  // Each once, `none` first: the others are compared with it.
  const std::vector<std::string>& names() const { return names_; }

  // Both throw one UsageError with all that is wrong, so that a person mends it in one go.
  void check(bool has_scratch) const;
  void check(const config::ProgramFacts& facts) const;

  config::Plan make_plan(const std::string& name, const config::ProgramFacts& facts) const;

 private:
  const plan::PlanFile* find(const std::string& name) const;
  void check_one(const std::string& name, bool has_scratch) const;
  void check_all(const std::function<void(const std::string& name)>& check) const;

  std::vector<std::string> names_;
  std::vector<plan::PlanFile> plans_;
};

}  // namespace memtune::sweep
