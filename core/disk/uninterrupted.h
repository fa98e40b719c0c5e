// Calls that signals may interrupt.
#pragma once

#include <cerrno>

namespace memtune::disk {

// `call` again as long as it answers -EINTR, which nobody does for ever.
template <class Call>
auto uninterrupted(Call call) {
  constexpr int kPatience = 100;
  auto result = call();
  for (int tries = 1; result == -EINTR && tries < kPatience; ++tries) result = call();
  return result;
}

}  // namespace memtune::disk
