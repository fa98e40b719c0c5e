// Integer sample inputs of a torch.export archive, such as token types, masks and positions, which random numbers
// cannot replace. The archive stores them as a file of torch.save. Its pickle is parsed, not executed; everything but
// tensors in tuples, lists and dicts is ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::model {

struct Pt2SampleInput {
  std::string storage;  // "LongStorage"
  std::vector<int64_t> sizes;
  std::vector<int64_t> values;  // row-major; empty for tensors that are not integer or bool, or too large
};

// All tensors in a file of torch.save, in their order; empty if the file is not understood.
std::vector<Pt2SampleInput> parse_pt2_samples(std::string_view file);

}  // namespace memtune::model
