// A person types the device's name: wrong names must say which are right.
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/device/device.h"

using memtune::UsageError;
using memtune::device::make_device;

TEST_CASE("names of devices are checked") {
  CHECK_THROWS_WITH_AS(make_device(""), doctest::Contains("unknown device ''"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cudas"), doctest::Contains("did you mean 'cuda'"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cuda:x"), doctest::Contains("device 'cuda:x'"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cuda:-1"), doctest::Contains("unknown device 'cuda:-1'"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cuda:"), doctest::Contains("device 'cuda:'"), UsageError);
}

TEST_CASE("the first device decides for the process") {
  CHECK(make_device("cpu")->emulated());
  CHECK(make_device("cpu")->emulated());
  CHECK_THROWS_WITH_AS(make_device("cuda"), "device 'cuda': this process already uses 'cpu'; it takes another process",
                       UsageError);
}
