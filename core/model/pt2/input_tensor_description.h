// Inputs of an exported model, as its file describes them: dtype and sizes of the sample, and the dimensions that may
// have other sizes.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace memtune::model {

struct InputDimension {
  int64_t size = 0;    // in the sample
  std::string symbol;  // dimensions with the same symbol have equal sizes; "": only `size` is valid
  int64_t least = 1, most = std::numeric_limits<int64_t>::max();
};

struct InputTensorDescription {
  std::string name;
  std::string dtype;  // canonical, or LibTorch's name if memtune has none
  std::vector<InputDimension> dimensions;
  std::vector<int64_t> sample = {};  // elements of an integer or bool sample, row-major; empty: not known
};

// Shapes for another batch size and sequence length. Replaces dimension 0 by `batch` and dimension 1 by `sequence` if
// they are dynamic, and all dimensions with the same symbol; 0 keeps the sample's size. Throws UsageError if no input
// has such a dynamic dimension.
std::vector<std::vector<int64_t>> resize(const std::vector<InputTensorDescription>& inputs, int64_t batch,
                                         int64_t sequence);

// Sample values for another shape: the sample is repeated along every dimension.
std::vector<int64_t> repeat_sample(const InputTensorDescription& input, const std::vector<int64_t>& shape);

// Throws UsageError for sizes that the exported program does not accept.
void check_shape(const InputTensorDescription& input, const std::vector<int64_t>& shape);

}  // namespace memtune::model
