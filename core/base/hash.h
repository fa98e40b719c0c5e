// XXH3 of bytes: 128 bits as 32 hexadecimal digits for keys of trials and identity of gradients, 64 bits for blocks on
// a disk. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace memtune {

std::string hash_hex(const void* data, size_t size);
inline std::string hash_hex(std::string_view text) { return hash_hex(text.data(), text.size()); }

// hash_hex() of parts, one behind another.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(const void* data, size_t size);
  std::string hex() const;
  void reset();  // nothing was added yet

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Other seeds give unrelated values.
uint64_t hash64(const void* data, size_t size, uint64_t seed);

}  // namespace memtune
