// The doctor is asked when something is wrong: it must answer on any machine, and say what a lack costs.
#include "core/profiler/doctor.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "tests/support/run_program.h"

using namespace memtune::profiler;

namespace {

const Check* find(const std::vector<Check>& checks, const std::string& name) {
  for (const auto& check : checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("on the CPU everything that trials need works") {
  const auto checks = run_doctor("cpu");
  for (const char* name : {"LibTorch", "device", "profiler", "link"}) {
    CAPTURE(name);
    const Check* check = find(checks, name);
    REQUIRE(check != nullptr);
    CHECK(check->status == Status::ok);
    CHECK(check->fix.empty());
  }
  CHECK(find(checks, "LibTorch")->detail.rfind("2.11.", 0) == 0);
}

TEST_CASE("what is missing never fails a CPU check, but has a cost and a way out") {
  for (const auto& check : run_doctor("cpu")) {
    CAPTURE(check.name);
    CHECK(check.status != Status::fail);
    if (check.status == Status::warn) CHECK_FALSE(check.fix.empty());
  }
}

TEST_CASE("an unknown device is the person's mistake, not a finding") {
  CHECK_THROWS_AS(run_doctor("tpu"), memtune::UsageError);
}

TEST_CASE("a temporary folder that is absent or takes nothing is told in words, and none need be named") {
  const auto verdict = [](const std::string& path) {
    const memtune::test::Variable variable("TMPDIR", path);
    return *find(run_doctor("cpu"), "temporary folder");
  };
  const Check absent = verdict("/no/such"), refusing = verdict("/proc");
  CHECK(absent.status == Status::fail);
  CHECK(absent.detail == "there is no folder /no/such");
  CHECK(absent.fix == "set TMPDIR to a folder that can be written into");
  CHECK(refusing.status == Status::fail);
  CHECK(refusing.detail.starts_with("nothing can be written into /proc: "));
  ::unsetenv("TMPDIR");
  CHECK(find(run_doctor("cpu"), "temporary folder")->detail.starts_with("/tmp has "));
}
