// libstdc++.a refers to arc4random, which glibc has since 2.36.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t __wrap_arc4random() {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) std::abort();
  return number;
}
