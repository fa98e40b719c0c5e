// Random numbers that are the same on every machine for a seed. The standard's distributions differ between libraries.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace memtune::tests {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t next() { return engine_(); }
  int below(int bound) { return static_cast<int>(engine_() % static_cast<uint64_t>(bound)); }
  bool one_in(int n) { return below(n) == 0; }

  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(below(static_cast<int>(choices.size())))];
  }
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace memtune::tests
