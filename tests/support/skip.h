// Skips a case that cannot run on this machine, so that it does not count as passed (tests/support/run_cases.h).
#pragma once

#include <doctest/doctest.h>

namespace memtune::tests {

// Whether the running case is skipped.
inline bool is_skipped = false;

}  // namespace memtune::tests

// Returns from the function. `reason` names what would be tested and why that is impossible here.
#define MEMTUNE_SKIP(reason)             \
  do {                                   \
    MESSAGE("SKIPPED, " << (reason));    \
    ::memtune::tests::is_skipped = true; \
    return;                              \
  } while (false)
