// The settings of the allocator that a plan may need on a device of its budget, for the user.
#pragma once

#include <string>

#include "core/base/allocator_settings.h"
#include "core/plan/planner/planner.h"

namespace memtune::sweep {

inline std::string allocator_note(const planner::PredictedPlan& step) {
  const bool needed = step.predicted.short_bytes > 0;
  return step.plan.strategy + (needed ? ": needs " : ": may need ") + kAllocatorVariable + "=" + kExpandableSegments +
         (needed ? ", because free memory is predicted to be in pieces" : "") +
         (step.safe ? "" : "; steps then take longer than predicted");
}

}  // namespace memtune::sweep
