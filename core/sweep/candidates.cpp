#include "core/sweep/candidates.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/strategy.h"

namespace memtune::sweep {

using config::Plan;
using config::ProgramFacts;
using plan::PlanFile;

Candidates::Candidates(const std::vector<std::string>& strategies, const std::vector<PlanFile>& plans) : plans_(plans) {
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) names_.push_back(name);
  };
  for (const std::string& strategy : strategies) add(strategy);
  for (const PlanFile& plan : plans_) add(plan.name());
  std::stable_partition(names_.begin(), names_.end(), [](const std::string& name) { return name == "none"; });
}

void Candidates::check(bool has_scratch) const {
  check_all([&](const std::string& name) { check_one(name, has_scratch); });
}

void Candidates::check(const ProgramFacts& facts) const {
  check_all([&](const std::string& name) { make_plan(name, facts); });
}

Plan Candidates::make_plan(const std::string& name, const ProgramFacts& facts) const {
  const PlanFile* file = find(name);
  return file ? file->make_plan(facts) : plan::make_plan(name, facts);
}

const PlanFile* Candidates::find(const std::string& name) const {
  const auto called = [&](const PlanFile& file) { return file.name() == name; };
  const auto file = std::find_if(plans_.begin(), plans_.end(), called);
  return file == plans_.end() ? nullptr : &*file;
}

void Candidates::check_one(const std::string& name, bool has_scratch) const {
  const PlanFile* file = find(name);
  const auto called = [&](const PlanFile& plan) { return plan.name() == name; };
  if (std::count_if(plans_.begin(), plans_.end(), called) > 1)
    throw UsageError("two plans are called '" + name + "'; give one of them another \"name\"");
  if (!has_scratch && (file ? file->uses_disk() : plan::uses_disk(name)))
    throw UsageError("'" + name + "' places values on disk: --scratch DIR has to say where");
}

void Candidates::check_all(const std::function<void(const std::string&)>& check) const {
  std::vector<std::string> errors;
  for (const std::string& name : names_) try {
      check(name);
    } catch (const UsageError& error) {
      // Of a model without blocks every strategy says the same.
      if (std::find(errors.begin(), errors.end(), error.what()) == errors.end()) errors.emplace_back(error.what());
    }
  if (!errors.empty()) throw UsageError(join(errors, "; "));
}

}  // namespace memtune::sweep
