// Settings of PyTorch's CUDA allocator. They change no arithmetic.
#pragma once

#include <string>

namespace memtune {

inline constexpr const char* kAllocatorVariable = "PYTORCH_CUDA_ALLOC_CONF";
// Segments that grow leave less memory in pieces that are too small.
inline constexpr const char* kGrowingSegments = "expandable_segments:True";

// False if the environment sets that already, to either value.
bool may_grow_segments();
// The settings, behind those of the environment.
std::string with_environment(const std::string& settings);

// True if PyTorch's message of an allocation that failed says that it had the bytes free, but in pieces.
bool says_fragmented(const std::string& message);

}  // namespace memtune
