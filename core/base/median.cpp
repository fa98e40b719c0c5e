#include "core/base/median.h"

#include <algorithm>
#include <cstddef>

namespace memtune {

double median(std::vector<double> samples) {
  const double upper = upper_median(samples);
  if (samples.empty() || samples.size() % 2 == 1) return upper;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2 - 1);
  std::nth_element(samples.begin(), middle, samples.end());
  return (*middle + upper) / 2;
}

double upper_median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace memtune
