// Defines which trial is faster, for the table, plots, recommendation, diff and viewer. Steps with other batch sizes or
// sequence lengths do other work, so the time for the same work is compared.
#pragma once

#include <span>
#include <vector>

#include "core/answer/result/rounds.h"
#include "core/record/measurement/trial_result_row.h"

namespace memtune::result {

enum class WorkUnit { step, sample, token };

// ms per step, sample or token; infinite if not known.
double work_time(const TrialMeasurement& measurement, WorkUnit work);

// The trial worked, and its step time is finite. Gradients equal the reference's, or differ by no more than its own
// runs do.
bool usable(const TrialMeasurement& measurement);
bool worked(const TrialMeasurement& measurement);
bool ended_out_of_memory(const TrialMeasurement& measurement);  // it ended with device or host out of memory
// Usable, and the same training as the baseline (see compare_losses). choices() in core/answer/result/effect.h keeps
// one of several equal trials.
bool is_eligible(const TrialMeasurement& measurement);

// A time that is longer by more than this is never called as fast within the noise, however large the noise.
inline constexpr double kMostNoise = 1.1;

// Whether the step time says nothing about a GPU: the CPU emulates the device and its own copies.
bool is_untimed(const TrialMeasurement& measurement);

// Samples or tokens per step, if the row counts them; 1 for a step.
double amount(const TrialMeasurement& measurement, WorkUnit work);

// Finds the unit of work by which rows can be compared. It is a step if all usable rows have the same batch and
// sequence; commands must also have equal samples and tokens per step. Otherwise it is a token if all count tokens,
// else a sample, else a step. Padding may add up to 25 % tokens for equal samples; that counts as equal work.
class WorkNormalizedTrialComparator {
 public:
  explicit WorkNormalizedTrialComparator(std::span<const TrialResultRow* const> rows);
  explicit WorkNormalizedTrialComparator(std::span<const TrialResultRow> rows)
      : WorkNormalizedTrialComparator(pointers_to(rows)) {}

  WorkUnit work() const { return work_; }
  // "step ms", "ms a sample", "µs a token": what time() measures; and its unit.
  const char* title() const;
  const char* unit() const;
  // If there are rounds: the baseline's time multiplied by the ratio to it.
  double time(const TrialResultRow& row) const { return interval(row).value; }
  StepTimeRatioEstimate interval(
      const TrialResultRow& row,
      ConfidenceIntervalLevel = ConfidenceIntervalLevel::percent95) const;  // in the same unit
  // Ratio of the times for the same work, over the rounds.
  StepTimeRatioEstimate ratio(const TrialResultRow& row, const TrialResultRow& base,
                              ConfidenceIntervalLevel = ConfidenceIntervalLevel::percent95) const;
  // Whether no difference can be claimed: the 99 % interval of their ratio over the rounds contains 1. Without rounds
  // in common: their intervals overlap. Rows without a time equal each other only.
  bool equally_fast(const TrialResultRow& a, const TrialResultRow& b) const;

  // At equal times the smaller peak decides. Rows without a time (is_untimed) come last, smallest peak first.
  bool faster(const TrialResultRow& a, const TrialResultRow& b) const;
  bool smaller(const TrialResultRow& a,
               const TrialResultRow& b) const;  // by peak allocated; at equal peaks the faster one

 private:
  const TrialResultRow* base_of(const TrialResultRow& row) const;

  WorkUnit work_ = WorkUnit::step;
  std::vector<const TrialResultRow*> rows_;  // only usable ones
};

// Rows in display order: working ones by speed, then failed ones in their order.
std::vector<const TrialResultRow*> ranked(std::span<const TrialResultRow> rows);

}  // namespace memtune::result
