// A value is known by the op that made it and which of its outputs it is. What an op saves for its own backward alone
// is no output: it stands under this number.
#pragma once

namespace memtune {

inline constexpr int kPrivate = -1;

}  // namespace memtune
