// The hash of device memory, by words of 8 bytes. It has 128 bits: the sums of both parts over all words. Not
// cryptographic.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define MEMTUNE_ON_DEVICE __device__
#else
#define MEMTUNE_ON_DEVICE
#endif

namespace memtune::device {

struct DeviceMemoryHashValue {
  uint64_t first = 0, second = 0;
};

// Two finalizers of 64 bits, of MurmurHash3 and of SplitMix64. Each changes half of its bits for a changed bit.
MEMTUNE_ON_DEVICE inline DeviceMemoryHashValue mixed_word(uint64_t word, uint64_t index) {
  uint64_t a = word + (index + 1) * 0x9e3779b97f4a7c15u;
  a = (a ^ (a >> 33)) * 0xff51afd7ed558ccdu;
  a = (a ^ (a >> 33)) * 0xc4ceb9fe1a85ec53u;
  uint64_t b = word ^ ((index + 1) * 0xd6e8feb86659fd93u);
  b = (b ^ (b >> 30)) * 0xbf58476d1ce4e5b9u;
  b = (b ^ (b >> 27)) * 0x94d049bb133111ebu;
  return {a ^ (a >> 33), b ^ (b >> 31)};
}

}  // namespace memtune::device

#undef MEMTUNE_ON_DEVICE
