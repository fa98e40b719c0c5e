// Why: a run without cases, or with only skipped ones, must not count as passed.
#include <doctest/doctest.h>

#include "tests/support/run_program.h"
namespace memtune::tests::run_cases_test {
namespace {

test::Ended run_sample(const std::string& arguments) {
  const test::ScratchFolder folder;
  const std::string out = (folder.path / "out").string();
  const int status =
      std::system((test::program("memtune-cases-sample") + " " + arguments + " >" + out + " 2>&1").c_str());
  return {WEXITSTATUS(status), test::slurp(out), ""};
}

}  // namespace

TEST_CASE("a run of doctest passes only when a case was tried and none failed") {
  CHECK(run_sample("'-tc=passes'").code == 0);
  CHECK(run_sample("'-tc=is skipped'").code == 77);
  CHECK(run_sample("'-tc=fails and is skipped'").code == 1);
  CHECK(run_sample("'-tc=is skipped,fails and is skipped'").code == 1);
  CHECK(run_sample("-tc=nothing").code == 1);
  CHECK(run_sample("--count").code == 0);
}

TEST_CASE("a run in which some cases were skipped names them") {
  const test::Ended ran = run_sample("'-tc=passes,is skipped*'");
  CHECK(ran.code == 0);
  CHECK(ran.out.find("\ncase skipped: is skipped\ncase skipped: is skipped in one part\n") != std::string::npos);
}

}  // namespace memtune::tests::run_cases_test
