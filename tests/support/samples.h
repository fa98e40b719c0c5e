// How many samples a test takes. Under sanitizers, which make code several times slower, every seventh stays, because
// what they look for shows in few. With MEMTUNE_NIGHT all stay.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace memtune::tests {

inline bool at_night() {
  static const bool night = std::getenv("MEMTUNE_NIGHT") != nullptr;
  return night;
}

inline int64_t sample_stride() {
#ifdef MEMTUNE_SANITIZED
  return at_night() ? 1 : 7;  // a prime, so that nested loops over few values keep each value
#else
  return 1;
#endif
}

inline bool is_sampled(int64_t i) { return i % sample_stride() == 0; }

// How many of i in [0, all) are sampled.
inline int samples(int all) { return static_cast<int>((all + sample_stride() - 1) / sample_stride()); }

}  // namespace memtune::tests
