// The whole numbers among the sample inputs of a torch.export archive: token types, masks, positions, which no random
// numbers stand for. They are a file of torch.save within the archive; of its pickle nothing is run, and what is
// anything but tensors in tuples, lists and dicts is passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::config {

struct Pt2Sample {
  std::string storage;  // "LongStorage"
  std::vector<int64_t> sizes;
  std::vector<int64_t> values;  // in the order of the sizes; none of a tensor that holds no whole numbers, or too many
};

// Of the file's bytes: all tensors in their order; nothing where it is not understood.
std::vector<Pt2Sample> parse_pt2_samples(std::string_view file);

}  // namespace memtune::config
