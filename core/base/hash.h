// XXH3 hashes: 128 bits as 32 hexadecimal digits for trial keys and gradient comparison, 64 bits as checksums of disk
// blocks. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace memtune {

std::string hash_hex(const void* data, size_t size);
inline std::string hash_hex(std::string_view text) { return hash_hex(text.data(), text.size()); }

// hash_hex() of data that arrives in parts. The result equals the hash of the concatenated parts.
class IncrementalXxh3Hasher {
 public:
  IncrementalXxh3Hasher();
  ~IncrementalXxh3Hasher();
  IncrementalXxh3Hasher(const IncrementalXxh3Hasher&) = delete;
  IncrementalXxh3Hasher& operator=(const IncrementalXxh3Hasher&) = delete;

  void add(const void* data, size_t size);
  std::string hex() const;
  void reset();  // as after construction

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Different seeds give independent hashes.
uint64_t hash64(const void* data, size_t size, uint64_t seed);

}  // namespace memtune
