// What "memtune plan --from" found, for people and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/other_machine.h"
#include "core/planner/planner.h"
#include "core/result/predicted.h"

namespace memtune::cli {

// A budget and the best plan that keeps it; none: no plan does.
struct PaperRung {
  int64_t budget_bytes = 0;
  std::optional<planner::PlannedStep> step;
  std::optional<planner::PlanReasons> reasons;  // where they were asked for
  std::optional<StepRange> range;               // on another machine

  result::Predicted predicted() const;  // of `step`
};

struct PaperAnswer {
  std::string title, strategy;  // strategy: whose step was recorded; of none alone it is measured
  double none_ms = 0;
  int64_t least_bytes = 0;  // that any plan takes
  std::vector<PaperRung> rungs;
  std::vector<std::string> notes;  // what a person must know
};

// At most `width` characters a line, but for the table.
std::string to_text(const PaperAnswer& answer, const config::ProgramFacts& program, int width);

nlohmann::json to_json(const PaperAnswer& answer);

}  // namespace memtune::cli
