#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/run_cases.h"

int main(int argc, char** argv) { return memtune::tests::run_cases(argc, argv); }
