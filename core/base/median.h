// Medians, for all of memtune. Both return 0 if there are no samples.
#pragma once

#include <vector>

namespace memtune {

// Of an even number of samples, the mean of the middle two.
double median(std::vector<double> samples);

// Of an even number of samples, the larger of the middle two. It is one of the samples.
double upper_median(std::vector<double> samples);

}  // namespace memtune
