// Shared code of LibTorch's process groups, Gloo and NCCL.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/view_as_real.h>

#include <exception>
#include <string>

#include "core/base/layout.h"
#include "core/engine/shard/collectives.h"

namespace memtune::shard {

// Rethrows the current exception as RankTimeoutError or RankLostError. Gloo reports timeouts only in its message; NCCL
// and c10d's store throw torch errors.
[[noreturn]] inline void rethrow(const std::string& what, const ProcessGroupSettings& settings) {
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string rank = "rank " + std::to_string(settings.rank);
    if (text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos)
      throw RankTimeoutError(rank + " waited " + seconds_text(settings.timeout) + " for the others in the " + what);
    throw RankLostError(rank + " lost another rank in the " + what);
  }
}

// Neither group can sum complex numbers.
inline at::Tensor reals_of(const at::Tensor& row) { return row.is_complex() ? at::view_as_real(row).view(-1) : row; }

}  // namespace memtune::shard
