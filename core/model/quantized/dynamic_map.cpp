#include "core/model/quantized/dynamic_map.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace memtune::quantized {

// Seven powers of ten, each with twice as many fractions as the next lower one; plus 0 and 1.
at::Tensor dynamic_map(bool with_sign, c10::Device device) {
  constexpr int kExponents = 7;
  std::vector<double> values = {0, 1};
  for (int i = 0; i < kExponents; ++i) {
    const at::Tensor edges = at::linspace(0.1, 1, (int64_t{1} << (with_sign ? i : i + 1)) + 1, at::kFloat);
    const at::Tensor means = (edges.slice(0, 0, -1) + edges.slice(0, 1)) / 2.0;
    const at::Tensor scaled = means * std::pow(10.0, i - (kExponents - 1));
    for (int64_t k = 0; k < scaled.numel(); ++k) {
      values.push_back(scaled[k].item<double>());
      if (with_sign) values.push_back(-values.back());
    }
  }
  std::sort(values.begin(), values.end());
  return at::tensor(values, at::kFloat).to(device);
}

}  // namespace memtune::quantized
