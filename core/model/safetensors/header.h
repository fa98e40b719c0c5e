// The header of a safetensors file:
//
//   u64 length, little-endian | header: JSON of that length | data
//   {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//
// Offsets count from the first byte of the data. The tensors cover the data without holes or overlaps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/safetensors/dtype.h"

namespace memtune::safetensors {

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;  // empty for a scalar
  int64_t begin = 0, end = 0;  // offsets in the data
  int64_t bytes() const { return end - begin; }
};

struct Header {
  std::vector<TensorEntry> entries;  // in data order
  std::map<std::string, std::string> metadata;
};

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr int64_t kDataAlignment = 4096;  // in files of memtune, for direct I/O

// Why a file is invalid. The message is a clause without the file's name.
class MalformedFileError : public Error {
 public:
  using Error::Error;
};

// Returns the header's length from the first kLengthBytes of a file with `file_bytes`. Throws Malformed.
int64_t parse_length(const unsigned char* bytes, int64_t file_bytes);
// Parses the header. Checks types, shapes and offsets against `data_bytes`, and finds holes, overlaps and repeated
// names. Throws Malformed.
Header parse_header(const std::string& text, int64_t data_bytes);
// Returns length and header, padded so that data begins at a multiple of kDataAlignment. Throws Malformed.
std::string print_header(const Header& header);

// Size of `shape`. Throws Malformed that names `name` for negative sizes and for overflow.
int64_t bytes_of(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape);

}  // namespace memtune::safetensors
