// Messages of other programs, to be quoted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace memtune {

// Of at most `most` bytes: a longer one loses its middle, for messages begin with what happened and end with what to
// do. Those of PyTorch's allocators when memory runs out stay whole up to 4000 bytes.
std::string bounded_message(std::string_view text, size_t most);

}  // namespace memtune
