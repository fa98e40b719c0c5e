// A tensor of a training's state, between the memory that it lives in and a saved state. Of several ranks' parameters
// each rank has a part: a row of numbers, as they lie in the parameter's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/state/manifest.h"
#include "core/state/snapshot.h"

namespace memtune::trial {

struct StateItem {
  std::string name;
  at::Tensor tensor;
  std::function<void(const at::Tensor&)> put = nullptr;  // empty: it is copied into the tensor
  bool changes_in_forward = false;
  std::optional<state::Extent> part = std::nullopt;  // the tensor is a row of a larger one
  bool of_rank = false;                              // each rank has one of its own
  bool elsewhere = false;                            // another rank saves it; each loads it
};

// How the numbers of a tensor lie in its memory, if they do so without holes; begin is 0. As reals.
std::optional<state::Extent> row_of(const at::Tensor& tensor);
// Of such a row, from element `begin` of the tensor on.
state::Extent part_of(state::Extent row, int64_t begin, bool complex);

// In a file. UsageError for what safetensors files do not have.
safetensors::Spec spec_of(const StateItem& item);
// The item's bytes are those that are trained. Throws what an allocation throws.
state::StatePart state_part(const StateItem& item, bool changes_in_forward, c10::Device device);

// "'w' is F32[2] there and BF16[2] here"; "" where the item can take what was saved.
std::string difference(const StateItem& item, const state::StateTensor& saved);
// Puts all that it has of what was saved in its place.
void take(const StateItem& item, const state::StateTensor& saved, std::span<const char> bytes);

std::string describe(const state::StateTensor& saved);  // "F32[2,3]", of the whole tensor

}  // namespace memtune::trial
