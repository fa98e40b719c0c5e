// Which tensor lies where in a file's data: a function of what will be in it alone, so that the bytes can be gathered
// before there is a file. The file is print_header() of it, then the data.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/safetensors/header.h"

namespace memtune::safetensors {

struct Spec {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
};

// In the order of the data: the widest elements first, so that each tensor is aligned to its own, else as given. Throws
// Malformed for names that are there twice or reserved, and for impossible shapes.
std::vector<Entry> lay_out(std::span<const Spec> tensors);

inline int64_t data_bytes_of(const std::vector<Entry>& entries) { return entries.empty() ? 0 : entries.back().end; }

}  // namespace memtune::safetensors
