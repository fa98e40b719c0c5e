// Output index for a tensor that an op saves only for its own backward. Other activations are identified by op and
// output index.
#pragma once

namespace memtune {

inline constexpr int kPrivateSave = -1;

}  // namespace memtune
