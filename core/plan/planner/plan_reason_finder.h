// Finds the reasons of a plan in the options that it was made from and in its simulated step.
#pragma once

#include "core/plan/planner/plan_reasons.h"
#include "core/plan/planner/planner.h"
#include "core/plan/planner/step_simulator.h"

namespace memtune::planner {

class PlanReasonFinder {
 public:
  // Both must outlive it.
  PlanReasonFinder(const Planner& planner, const PredictedPlan& step);

  PlanReasons find();

 private:
  SamePolicyBlocksPlanExplanation::Where where(size_t part) const;
  size_t part_of(int op) const;
  int op_at(size_t entry) const;
  const BlockOption& chosen(size_t part) const;
  bool alike(size_t a, size_t b) const;
  void add(size_t part, SamePolicyBlocksPlanExplanation& treated) const;
  void add_times(size_t part, SamePolicyBlocksPlanExplanation& treated) const;
  void add_next(size_t part, SamePolicyBlocksPlanExplanation& treated) const;
  void name(size_t part, SamePolicyBlocksPlanExplanation& treated) const;
  PeakLocation peak() const;

  const Planner& planner_;
  const PredictedPlan& step_;
  RecomputeAndWaitTimesOfSimulatedStep log_;
};

}  // namespace memtune::planner
