// Autocast of the meta device, with the casts that LibTorch makes on CUDA. LibTorch has none for meta tensors.
//
// Thread: settings are of the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/model/ops/autocast.h"

namespace memtune::ops {

AutocastState meta_autocast();
void set_meta_autocast(const AutocastState& state);
void clear_meta_autocast_cache();

// `tensor` as an operator of autocast's lower precision gets it; unchanged without autocast. A float32 parameter is
// cast once, and the copy lives until the cache is cleared.
at::Tensor meta_autocast_cast(const at::Tensor& tensor);

}  // namespace memtune::ops
