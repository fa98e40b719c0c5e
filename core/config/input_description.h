// What a model's file says of its inputs, where it does: dtype and sizes of the sample it was recorded with, and which
// sizes may be others.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace memtune::config {

struct Dimension {
  int64_t size = 0;    // of the sample
  std::string symbol;  // sizes of one symbol are equal; "": the program is right for `size` alone
  int64_t least = 1, most = std::numeric_limits<int64_t>::max();
};

struct InputDescription {
  std::string name;
  std::string dtype;  // canonical, or LibTorch's own name where memtune has none
  std::vector<Dimension> dimensions;
  std::vector<int64_t> sample = {};  // of whole numbers and truths: the sample itself, by its sizes; "": not known
};

// The sample's sizes, with the first of each input replaced by `batch` and the second by `sequence` where they may be
// others, and all of the same symbols; 0: as in the sample. UsageError where no input's may be.
std::vector<std::vector<int64_t>> resize(const std::vector<InputDescription>& inputs, int64_t batch, int64_t sequence);

// Numbers for another size: the sample, again and again in every dimension.
std::vector<int64_t> repeat_sample(const InputDescription& input, const std::vector<int64_t>& shape);

// UsageError for sizes that the program is not right for.
void check_shape(const InputDescription& input, const std::vector<int64_t>& shape);

}  // namespace memtune::config
