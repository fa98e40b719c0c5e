// Users run the doctor when something is wrong. It must work on any machine and say what each missing part costs.
#include "core/measure/profiler/doctor.h"

#include <doctest/doctest.h>
#include <torch/headeronly/version.h>

#include <cstdlib>

#include "core/base/error.h"
#include "tests/support/run_program.h"

namespace memtune::doctor_test {

using namespace memtune::profiler;

namespace {

const DoctorCheck* find(const std::vector<DoctorCheck>& checks, const std::string& name) {
  for (const auto& check : checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("the doctor finds everything that trials need on the CPU") {
  const auto checks = run_doctor("cpu");
  for (const char* name : {"LibTorch", "device", "profiler", "link"}) {
    CAPTURE(name);
    const DoctorCheck* check = find(checks, name);
    REQUIRE(check != nullptr);
    CHECK(check->status == DoctorStatus::ok);
    CHECK(check->fix.empty());
  }
  CHECK(find(checks, "LibTorch")->detail == TORCH_VERSION);
  CHECK(find(checks, "links together") == nullptr);
}

TEST_CASE("the doctor of a CUDA device says whether the engines ran on a GPU with this PyTorch") {
  const DoctorCheck untested = check_libtorch("2.15.0", /*on_cpu=*/false);
  CHECK(untested.status == DoctorStatus::warn);
  CHECK(untested.detail == "2.15.0, PyTorch 2.15: untested on GPU");
  CHECK(check_libtorch("2.15.0", /*on_cpu=*/true).status == DoctorStatus::ok);
  CHECK(check_libtorch("2.11.0", /*on_cpu=*/false).status == DoctorStatus::ok);
}

TEST_CASE("the doctor gives a fix for each warning and never fails on the CPU") {
  for (const auto& check : run_doctor("cpu")) {
    CAPTURE(check.name);
    CHECK(check.status != DoctorStatus::fail);
    if (check.status == DoctorStatus::warn) CHECK_FALSE(check.fix.empty());
  }
}

TEST_CASE("the doctor reports an unknown device as a usage error") {
  CHECK_THROWS_AS(run_doctor("tpu"), memtune::UsageError);
}

TEST_CASE("the doctor reports a missing or unwritable temporary folder and needs no TMPDIR") {
  const auto verdict = [](const std::string& path) {
    const memtune::test::Variable variable("TMPDIR", path);
    return *find(run_doctor("cpu"), "temporary folder");
  };
  const DoctorCheck absent = verdict("/no/such"), refusing = verdict("/proc");
  CHECK(absent.status == DoctorStatus::fail);
  CHECK(absent.detail == "there is no folder /no/such");
  CHECK(absent.fix == "set TMPDIR to a folder that can be written into");
  CHECK(refusing.status == DoctorStatus::fail);
  CHECK(refusing.detail.starts_with("nothing can be written into /proc: "));
  ::unsetenv("TMPDIR");
  CHECK(find(run_doctor("cpu"), "temporary folder")->detail.starts_with("/tmp has "));
}

TEST_CASE("the doctor compares PCIe bandwidth of all GPUs together with each GPU alone") {
  const LinkBandwidth alone[] = {{54.5, 54.7}, {54.44, 54.61}}, together[] = {{54.1, 54.7}, {54.4, 55}};
  const DoctorCheck check = check_links_together(alone, together);
  CHECK(check.name == "links together");
  CHECK(check.status == DoctorStatus::ok);
  CHECK(check.detail == "cuda:0 54.1 of 54.5 GB/s out, 54.7 of 54.7 in; cuda:1 54.4 of 54.4 GB/s out, 55.0 of 54.6 in");
  CHECK(check.fix.empty());
}

TEST_CASE("the doctor warns if GPUs share PCIe bandwidth and says what each rank then gets") {
  const LinkBandwidth alone[] = {{54.5, 54.7}, {54.5, 54.7}}, together[] = {{27.1, 28}, {27.3, 27.9}};
  const DoctorCheck check = check_links_together(alone, together);
  CHECK(check.status == DoctorStatus::warn);
  CHECK(check.detail ==
        "cuda:0 27.1 of 54.5 GB/s out, 28.0 of 54.7 in; cuda:1 27.3 of 54.5 GB/s out, 27.9 of 54.7 in: "
        "ranks that offload at once get that much each");
  CHECK_FALSE(check.fix.empty());
}

TEST_CASE("the doctor accepts nine tenths of PCIe bandwidth on every GPU in both directions") {
  const LinkBandwidth alone[] = {{50, 50}, {50, 50}};
  const auto status = [&](LinkBandwidth first, LinkBandwidth second) {
    const LinkBandwidth together[] = {first, second};
    return check_links_together(alone, together).status;
  };
  CHECK(status({45, 45}, {45, 45}) == DoctorStatus::ok);
  CHECK(status({44.9, 45}, {45, 45}) == DoctorStatus::warn);
  CHECK(status({45, 44.9}, {45, 45}) == DoctorStatus::warn);
  CHECK(status({45, 45}, {44.9, 45}) == DoctorStatus::warn);
  CHECK(status({45, 45}, {45, 44.9}) == DoctorStatus::warn);
}

}  // namespace memtune::doctor_test
