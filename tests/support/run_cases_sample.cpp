// Cases with each possible result, for run_cases_test.cpp.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/run_cases.h"

TEST_CASE("passes") { CHECK(true); }
TEST_CASE("is skipped") { MEMTUNE_SKIP("no tool"); }
TEST_CASE("is skipped in one part") {
  SUBCASE("skipped") { MEMTUNE_SKIP("no tool"); }
  SUBCASE("tried") { CHECK(true); }
}
TEST_CASE("fails and is skipped") {
  CHECK(false);
  MEMTUNE_SKIP("no tool");
}

int main(int argc, char** argv) { return memtune::tests::run_cases(argc, argv); }
