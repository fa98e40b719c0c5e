// A case that cannot be tried on this machine is skipped, not passed (tests/support/run_cases.h counts it).
#pragma once

#include <doctest/doctest.h>

namespace memtune::tests {

// Of the case that runs.
inline bool is_skipped = false;

}  // namespace memtune::tests

// Ends the function: what would be tested, and why not here.
#define MEMTUNE_SKIP(reason)             \
  do {                                   \
    MESSAGE("SKIPPED, " << (reason));    \
    ::memtune::tests::is_skipped = true; \
    return;                              \
  } while (false)
