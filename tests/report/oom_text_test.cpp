// The paragraph on a trial that ran out of memory, in text and HTML.
#include "core/answer/report/oom_text.h"

#include <doctest/doctest.h>

#include "core/answer/report/html/html.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/table.h"
#include "tests/report/sample.h"

namespace memtune::oom_text_test {

using namespace memtune;
using namespace memtune::report;

namespace {

result::OutOfMemoryBreakdown failure() {
  result::OutOfMemoryBreakdown oom;
  oom.step = 5;
  oom.phase = result::PeakMemoryTrainingPhase::forward;
  oom.stacks = true;
  oom.requested_bytes = 2 * kGiB;
  oom.limit_bytes = oom.total_bytes = 80 * kGiB;
  oom.free_bytes = kGiB;
  oom.allocated_bytes = 77 * kGiB;
  oom.reserved_bytes = 78 * kGiB;
  oom.parameters_bytes = 16 * kGiB;
  oom.rest_bytes = 61 * kGiB;
  oom.batch = {4, 32768, 32768};
  oom.largest_batch = {4, 8192, 8192};
  // A line that called two functions of PyTorch is one line.
  oom.lines = {{"/home/a/model.py", 41, "forward", "gelu", "x = <up>(x)", 40 * kGiB, 16},
               {"/home/a/model.py", 41, "forward", "linear", "x = <up>(x)", 20 * kGiB, 16},
               {"", 0, "", "", "", kGiB, 1}};
  oom.where = {"/home/a/model.py", 41, "forward", "", "x = <up>(x)", 2 * kGiB, 1};
  return oom;
}

Report report_of(const result::OutOfMemoryBreakdown& oom) {
  Report report;
  report.rows = {failed("command", result::TrialOutcome::device_oom, "CUDA out of memory")};
  report.rows[0].command = {"python", "train.py"};
  report.rows[0].measurement.oom = oom;
  return report;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the paragraph has cause, request, holders, lines and the first remedy") {
  CHECK(oom_text(failure()) ==
        "the batch of step 5 has 32768 positions, the largest before it had 8192 positions. Step 5 asked for 2 GiB in "
        "forward, model.py:41 (forward), with 77 GiB allocated, 78 GiB reserved, 1 GiB free of 80 GiB. "
        "Allocated: parameters 16 GiB, activations and others 61 GiB. Most by: model.py:41 (forward) `x = <up>(x)` "
        "60 GiB in 32 blocks, backward 1 GiB. First remedy: limit the length of rows (ids[:, :LENGTH]), or pack "
        "them; then gradient checkpointing (torch.utils.checkpoint.checkpoint around each block).");
}

TEST_CASE("what is not known is left out and a limit is named") {
  result::OutOfMemoryBreakdown oom = failure();
  oom.stacks = false;
  oom.parameters_bytes = oom.rest_bytes = 0;
  oom.where = {};
  oom.phase = result::PeakMemoryTrainingPhase::backward;
  oom.limit_bytes = 79 * kGiB;
  const std::string text = oom_text(oom);
  CHECK_FALSE(has(text, "Allocated: "));
  CHECK_FALSE(has(text, "Most by: "));
  CHECK(has(text, "asked for 2 GiB in backward, with 77 GiB"));
  CHECK(has(text, "free of 80 GiB and a limit of 79 GiB. First"));
}

TEST_CASE("table and page explain the failed trial and control characters do not pass") {
  result::OutOfMemoryBreakdown oom = failure();
  oom.lines[0].text = "x = \x1b[2J<up>(x)";
  const Report report = report_of(oom);
  const std::string text = table(report, {false, 200});
  CHECK(has(text, "   Why: the batch of step 5 has 32768 positions"));
  CHECK_FALSE(has(text, "\x1b[2J"));
  const std::string page = html(report, {});
  CHECK(has(page, "<b>Why:</b> the batch of step 5"));
  CHECK(has(page, "&lt;up&gt;"));
  CHECK_FALSE(has(table(sample_report()), "Why: "));
}

TEST_CASE("the JSON has the figures with cause and remedy and they can be read again") {
  const std::string text = to_json_text(report_of(failure()));
  CHECK(has(text, "\"cause\": \"longer_batch\""));
  CHECK(has(text, "\"remedy\": \"limit the length"));
  const Report again = from_json_text(text, "it");
  REQUIRE(again.rows[0].measurement.oom.has_value());
  CHECK(oom_text(*again.rows[0].measurement.oom) == oom_text(failure()));
  CHECK_FALSE(has(to_json_text(sample_report()), "\"oom\""));
}

}  // namespace memtune::oom_text_test
