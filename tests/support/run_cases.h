// The end of every doctest main. The exit code is 1 if a case failed or no case is selected, 77 if all cases were
// skipped, else 0. ctest lists 77 as skipped. Prints one line per skipped case, which scripts/test collects.
#pragma once

#include <doctest/doctest.h>

#include <iostream>
#include <string>
#include <vector>

#include "tests/support/skip.h"

namespace memtune::tests {

inline size_t started_cases = 0;
inline std::vector<std::string> skipped_cases;

// Counts the cases of a run, because doctest does not return these counts.
class CaseCounter : public doctest::IReporter {
 public:
  explicit CaseCounter(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& started) override {
    ++started_cases;
    is_skipped = false;
    name_ = started.m_name;
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    if (is_skipped) skipped_cases.push_back(name_);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  std::string name_;
};

REGISTER_LISTENER("case counter", 0, CaseCounter);

inline int run_cases(int argc, char** argv) {
  constexpr int kSkipped = 77;
  doctest::Context context(argc, argv);
  const int code = context.run();
  if (context.shouldExit()) return code;  // the list of cases was requested
  for (const std::string& name : skipped_cases) std::cout << "case skipped: " << name << "\n";
  if (code != 0) return code;
  if (started_cases == 0) {
    std::cerr << "no test case is selected\n";
    return 1;
  }
  return skipped_cases.size() == started_cases ? kSkipped : 0;
}

}  // namespace memtune::tests
