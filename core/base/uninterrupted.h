// Retries system calls that signals interrupt.
#pragma once

#include <cerrno>

namespace memtune {

// Repeats `call` while it returns -EINTR, at most kMaxRetries times.
template <class Call>
auto uninterrupted(Call call) {
  constexpr int kMaxRetries = 100;
  auto result = call();
  for (int tries = 1; result == -EINTR && tries < kMaxRetries; ++tries) result = call();
  return result;
}

}  // namespace memtune
