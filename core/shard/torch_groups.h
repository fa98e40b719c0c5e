// What LibTorch's groups of processes, Gloo's and NCCL's, have in common.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/view_as_real.h>

#include <exception>
#include <string>

#include "core/base/layout.h"
#include "core/shard/collectives.h"

namespace memtune::shard {

// Of the exception in flight. Gloo tells by words alone, NCCL and c10d's store by errors of torch's.
[[noreturn]] inline void rethrow(const std::string& what, const GroupSettings& settings) {
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string rank = "rank " + std::to_string(settings.rank);
    if (text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos)
      throw RankTimeout(rank + " waited " + seconds_text(settings.patience) + " for the others in the " + what);
    throw RankLost(rank + " lost another rank in the " + what);
  }
}

// Neither sums complex numbers.
inline at::Tensor reals_of(const at::Tensor& row) { return row.is_complex() ? at::view_as_real(row).view(-1) : row; }

}  // namespace memtune::shard
