// What a safetensors file says of itself:
//
//   u64 length, little-endian | header: JSON of that length | data
//   {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//
// Offsets count from the first byte of the data, which the tensors cover without a hole or an overlap.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/safetensors/dtype.h"

namespace memtune::safetensors {

struct Entry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;  // empty: a scalar
  int64_t begin = 0, end = 0;  // in the data
  int64_t bytes() const { return end - begin; }
};

struct Header {
  std::vector<Entry> entries;  // in the order of the data
  std::map<std::string, std::string> metadata;
};

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMostHeaderBytes = 100'000'000;
constexpr int64_t kDataAlignment = 4096;  // where data begins in files of ours: it can be moved past the page cache

// Why a file is not one. The message is a half sentence, without the file's name.
class Malformed : public Error {
 public:
  using Error::Error;
};

// The header's length by the first kLengthBytes of a file of `file_bytes`. Throws Malformed.
int64_t parse_length(const unsigned char* bytes, int64_t file_bytes);
// Checked against the bytes of data behind it: types, shapes, offsets, holes, overlaps, names that are there twice.
// Throws Malformed.
Header parse_header(const std::string& text, int64_t data_bytes);
// With its length in front, padded so that the data begins at a multiple of kDataAlignment. Throws Malformed.
std::string print_header(const Header& header);

// Bytes of `shape`; throws Malformed, naming `name`, for negative sizes and for more than can be counted.
int64_t bytes_of(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape);

}  // namespace memtune::safetensors
