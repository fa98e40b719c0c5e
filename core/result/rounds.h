// Trials that are compared run in turns (A B C, A B C, ...), so that a drift of the machine meets all of them. What is
// compared is the ratio of a trial's median step to that of the baseline in the same round; over the rounds it has an
// interval (docs/decisions/rounds-and-ratios.md).
#pragma once

#include "core/result/measurement.h"

namespace memtune::result {

// Of a trial's step to another's.
struct Ratio {
  double value = 1, low = 1, high = 1;  // low and high: the interval
};

// Of the interval. A figure for itself is shown with 95 %. Of ten trials the fastest has had ten chances to look so:
// whether it is takes 99 %.
enum class Confidence { percent95, percent99 };

// Geometric mean of the rounds' ratios, with Student's interval of their logarithms. Fewer than two rounds that
// were measured beside `base`: the medians' ratio, with the interval of the trial's own median.
Ratio ratio_of(const Measurement& measurement, const Measurement& base, Confidence = Confidence::percent95);

// `round`, counted from 0, into what earlier rounds found: samples of all make the step time, the highest peak counts.
void add_round(size_t index, const Measurement& round, const Round& beside, Measurement& to);

}  // namespace memtune::result
