// Which trial is faster: the one answer that the table, plots, recommendation, diff and viewer give. Trials of other
// batch sizes or sequence lengths do other work in a step, so what is compared is the time for the same work.
#pragma once

#include <span>
#include <vector>

#include "core/result/rounds.h"
#include "core/result/row.h"

namespace memtune::result {

enum class Work { step, sample, token };

// ms that a step, a sample or a token took; infinite where that is not known.
double work_time(const Measurement& measurement, Work work);

// Worked, with gradients that are the reference's (or as near to them as its own runs are to each other), in a time
// that is a number.
bool usable(const Measurement& measurement);
bool worked(const Measurement& measurement);
bool lacks_memory(const Measurement& measurement);  // of the device or the host: it ended for that
// Usable, and the same training as the baseline (see compare_losses). Of several that amount to the same, `choices`
// (core/result/effect.h) has one.
bool can_be_chosen(const Measurement& measurement);

// What a step has of it, of rows that count it: samples or tokens; 1 of a step.
double amount(const Measurement& measurement, Work work);

// The work that can be compared over some rows: a step where all that are usable have the same batch and sequence, of
// commands as many samples and tokens a step; else a token where all count tokens, else a sample, else a step. Of as
// many samples larger batches may be padded to more tokens: that is no more work.
class Ranking {
 public:
  explicit Ranking(std::span<const Row* const> rows);
  explicit Ranking(std::span<const Row> rows) : Ranking(pointers_to(rows)) {}

  Work work() const { return work_; }
  // "step ms", "ms a sample", "µs a token": what time() counts, and its unit alone.
  const char* title() const;
  const char* unit() const;
  // Of rounds, the baseline's time times the ratio to it.
  double time(const Row& row) const { return interval(row).value; }
  Ratio interval(const Row& row, Confidence = Confidence::percent95) const;  // in the same unit
  // Of the times for the same work, over the rounds.
  Ratio ratio(const Row& row, const Row& base, Confidence = Confidence::percent95) const;
  // No difference can be told, with 99 %.
  bool as_fast(const Row& a, const Row& b) const;

  bool faster(const Row& a, const Row& b) const;   // of two as fast, the one with the smaller peak
  bool smaller(const Row& a, const Row& b) const;  // by allocated peak; of two as small, the faster

 private:
  const Row* base_of(const Row& row) const;

  Work work_ = Work::step;
  std::vector<const Row*> rows_;  // usable ones
};

// Rows as people want to read them: those that worked, fastest first, then those that failed, in their order.
std::vector<const Row*> ranked(std::span<const Row> rows);

}  // namespace memtune::result
