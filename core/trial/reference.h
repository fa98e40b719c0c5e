// The baseline's loss and gradients in a file, and the comparison of a trial's with it, bit for bit.
//
// Format: "MTREFER1", u64 header length, JSON header {strategy, loss (hex float), parameters: [{name, dtype, shape,
// offset, bytes, hash (XXH3-128)}]}, raw gradient bytes. Written aside and renamed. Undefined gradients are recorded as
// such.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/result/measurement.h"

namespace memtune::trial {

using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;  // gradients are read from .grad()

void write_reference(const std::filesystem::path& path, const std::string& strategy, double loss,
                     const NamedParameters& parameters);

// equal: the loss and every gradient have the reference's bits. Otherwise the largest absolute difference (over the
// loss too) and where it is. Reads the file's gradients only where a hash differs. UsageError when it is no reference.
result::Gradients compare_with_reference(const std::filesystem::path& path, double loss,
                                         const NamedParameters& parameters);

}  // namespace memtune::trial
