#include "core/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cinttypes>
#include <cstdio>

namespace memtune {

namespace {

std::string digits_of(XXH128_hash_t hash) {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016" PRIx64 "%016" PRIx64, static_cast<uint64_t>(hash.high64),
                static_cast<uint64_t>(hash.low64));
  return digits;
}

}  // namespace

std::string hash_hex(const void* data, size_t size) { return digits_of(XXH3_128bits(data, size)); }

struct IncrementalXxh3Hasher::State {
  XXH3_state_t state;
};

IncrementalXxh3Hasher::IncrementalXxh3Hasher() : state_(std::make_unique<State>()) { reset(); }
IncrementalXxh3Hasher::~IncrementalXxh3Hasher() = default;
void IncrementalXxh3Hasher::add(const void* data, size_t size) { XXH3_128bits_update(&state_->state, data, size); }
void IncrementalXxh3Hasher::reset() { XXH3_128bits_reset(&state_->state); }
std::string IncrementalXxh3Hasher::hex() const { return digits_of(XXH3_128bits_digest(&state_->state)); }

uint64_t hash64(const void* data, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(data, size, seed); }

}  // namespace memtune
