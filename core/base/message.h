// Shortens messages of other programs for quoting.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace memtune {

// Returns at most `most` bytes. A longer message loses its middle, because messages begin with the cause and end with
// the advice. Out-of-memory messages of PyTorch's allocators keep up to 4000 bytes.
std::string bounded_message(std::string_view text, size_t most);

}  // namespace memtune
