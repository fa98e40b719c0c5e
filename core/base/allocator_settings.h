// Settings of PyTorch's CUDA allocator. They change no arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace memtune {

inline constexpr const char* kAllocatorVariable = "PYTORCH_CUDA_ALLOC_CONF";  // which every PyTorch reads
// Segments that can grow are less fragmented.
inline constexpr const char* kExpandableSegments = "expandable_segments:True";

// False if the environment sets that already, to either value.
bool may_expand_segments();
// True if the environment sets it to True.
bool expands_segments();
// "NAME=settings", behind the settings of the environment. NAME is PYTORCH_ALLOC_CONF if that alone is set, else
// kAllocatorVariable, which PyTorch 2.11 reads instead of the other.
std::string allocator_environment(const std::string& settings);

// True if PyTorch's message of an allocation that failed says that it had the bytes free, but in pieces.
bool says_fragmented(const std::string& message);
// The bytes that it asked for: 2 GiB of "Tried to allocate 2.00 GiB. GPU 0 has ..."; nothing: it has other words.
std::optional<int64_t> asked_bytes(const std::string& message);

}  // namespace memtune
