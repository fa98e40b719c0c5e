// A case that cannot be tried on this machine is skipped, not passed: ctest reads the word and lists the case as
// skipped.
#pragma once

#include <doctest/doctest.h>

// Ends the function: what would be tested, and why not here.
#define MEMTUNE_SKIP(reason)          \
  do {                                \
    MESSAGE("SKIPPED, " << (reason)); \
    return;                           \
  } while (false)
