#include "core/base/torch_version.h"

#include <doctest/doctest.h>

using namespace memtune;

TEST_CASE("the minor release is the first two numbers of a version") {
  CHECK(torch_minor("2.15.0+cu132") == "2.15");
  CHECK(torch_minor("2.11.0") == "2.11");
  CHECK(torch_minor("2.11") == "2.11");
  for (const char* text : {"", "2", "2.", ".15", "nightly", "v2.15"}) CHECK(torch_minor(text).empty());
}

TEST_CASE("minor releases differ only if both are known") {
  CHECK(other_torch_minor("2.11.0", "2.15.0"));
  CHECK_FALSE(other_torch_minor("2.12.0", "2.12.1+cpu"));
  CHECK_FALSE(other_torch_minor("", "2.15.0"));
  CHECK(other_torch_minor("2.1.0", "2.11.0"));
}

TEST_CASE("each minor release but the tested one is untested on GPU") {
  CHECK(untested_on_gpu("2.11.0+cu130").empty());
  CHECK(untested_on_gpu("").empty());
  CHECK(untested_on_gpu("2.12.1") == "PyTorch 2.12: untested on GPU");
  CHECK(untested_on_gpu("2.15.0+cu132") == "PyTorch 2.15: untested on GPU");
}
