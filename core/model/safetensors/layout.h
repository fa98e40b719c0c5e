// Computes the place of each tensor in a file's data from names, types and shapes alone. Data can therefore be
// collected before the file exists. The file is print_header() of the result, then the data.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/model/safetensors/header.h"

namespace memtune::safetensors {

struct TensorNameDtypeAndShape {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
};

// Entries in data order: widest element types first, so that every tensor is aligned, otherwise in the given order.
// Throws Malformed for repeated or reserved names and for invalid shapes.
std::vector<TensorEntry> lay_out(std::span<const TensorNameDtypeAndShape> tensors);

inline int64_t data_bytes_of(const std::vector<TensorEntry>& entries) {
  return entries.empty() ? 0 : entries.back().end;
}

}  // namespace memtune::safetensors
