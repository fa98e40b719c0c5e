// A tensor of a training's state, between its memory and a saved state. If parameters are sharded, each rank has a
// part: a row of elements, in the order of the parameter's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine/state/async_host_state_snapshot.h"
#include "core/engine/state/state_manifest.h"

namespace memtune::trial {

struct TrainingStateTensor {
  std::string name;
  at::Tensor tensor;
  // Puts a loaded tensor in place; empty: it is copied into `tensor`.
  std::function<void(const at::Tensor&)> put = nullptr;
  bool changes_in_forward = false;
  std::optional<state::ShardExtent> part = std::nullopt;  // set if the tensor is a row of a larger one
  bool of_rank = false;                                   // each rank has its own
  bool elsewhere = false;                                 // another rank saves it; every rank loads it
};

// The order of a tensor's elements in memory, if there are no gaps; begin is 0. A complex number counts as two reals.
std::optional<state::ShardExtent> row_of(const at::Tensor& tensor);
// The part of such a row that begins at element `begin` of the tensor.
state::ShardExtent part_of(state::ShardExtent row, int64_t begin, bool complex);

// Its entry in a file. Throws UsageError for what safetensors files do not have.
safetensors::TensorNameDtypeAndShape spec_of(const TrainingStateTensor& item);
// Refers to the memory that is trained, or to a copy if that is not contiguous. Throws what an allocation throws.
state::TensorToSave state_part(const TrainingStateTensor& item, bool changes_in_forward, c10::Device device);

// "'w' is F32[2] there and BF16[2] here"; "" if the item can take the saved tensor.
std::string difference(const TrainingStateTensor& item, const state::ManifestTensorEntry& saved);
// Copies those elements of a saved tensor that the item has.
void take(const TrainingStateTensor& item, const state::ManifestTensorEntry& saved, std::span<const char> bytes);

std::string describe(const state::ManifestTensorEntry& saved);  // "F32[2,3]", of the whole tensor

}  // namespace memtune::trial
