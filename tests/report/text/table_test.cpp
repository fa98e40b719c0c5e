// The table is the first thing users see. Whole tables are compared, so a shifted column or a missing mark fails.
#include "core/answer/report/text/table.h"

#include <doctest/doctest.h>

#include "core/answer/report/text/markdown.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "tests/report/sample.h"

namespace memtune::table_test {

using namespace memtune;
using namespace memtune::report;

namespace {

int widest(const std::string& text) {
  int width = 0;
  for (const std::string& line : memtune::split(text, '\n')) width = std::max(width, display_width(line));
  return width;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the table has a line for each rank") {
  Report report;
  report.rows = {worked("command", 250, 1, 2 * kGiB)};
  CHECK(table(report).find("rank") == std::string::npos);
  report.rows[0].measurement.ranks = {{0, memtune::result::summarize({240}), {kGiB, 0, 0}, 3.5, {}},
                                      {1, memtune::result::summarize({250}), {2 * kGiB, 0, 0}, 4.5, {}}};
  const std::string text = table(report);
  CHECK(text.find(" rank  step ms  peak GiB  optimizer ms\n") != std::string::npos);
  CHECK(text.find(" 0       240.0      1.00          3.50\n 1       250.0      2.00          4.50\n") !=
        std::string::npos);
}

TEST_CASE("a wide terminal shows every column") {
  CHECK(table(sample_report(), {false, 140}) ==
        R"( model.pt · NVIDIA H200
 tokens:int64[4,4096]<32000, next_token, adamw, bfloat16

   strategy                          step ms  × none  peak GiB   −GiB  hidden %  exposed ms  samples/s  gradients
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 • none                         250.0 ±  1.0    1.00     36.00      –         –           –      16.00  reference
 • checkpoint:op                275.0 ±  0.2    1.10     20.00  16.00         –           –      14.55  equal
 * checkpoint:full,inputs=host  320.0 ±  0.5    1.28     12.00  24.00        98         0.7      12.50  equal
   offload:stream               500.0 ± 10.0    2.00     14.00  22.00        50       200.0       8.00  ≈ 1.2e-04
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 ✗ offload:sync                 device_oom: asked for 2 GiB in forward with 15.5 GiB in use; largest owners:
                                layers.3.mlp 4 GiB

 * recommended; • no other is both faster and smaller
 step ms: median ± half of its 95 % interval; × none: step time over none's; peak GiB: the most that tensors
 held at once; −GiB: below none's peak; hidden %: share of copy time that overlapped compute; exposed ms: copy
 time a step that did not overlap compute

 Recommended: checkpoint:full,inputs=host: the fastest of two that keep 16 GiB

 note: the gradients of none differ from run to run; those marked ≈ differ from them by no more than that
)");
}

TEST_CASE("80 columns show the decisive columns and wrap nothing") {
  CHECK(table(sample_report(), {false, 80}) ==
        R"( model.pt · NVIDIA H200
 tokens:int64[4,4096]<32000, next_token, adamw, bfloat16

   strategy                          step ms  × none  peak GiB   −GiB  gradients
 ───────────────────────────────────────────────────────────────────────────────
 • none                         250.0 ±  1.0    1.00     36.00      –  reference
 • checkpoint:op                275.0 ±  0.2    1.10     20.00  16.00  equal
 * checkpoint:full,inputs=host  320.0 ±  0.5    1.28     12.00  24.00  equal
   offload:stream               500.0 ± 10.0    2.00     14.00  22.00  ≈ 1.2e-04
 ───────────────────────────────────────────────────────────────────────────────
 ✗ offload:sync                 device_oom: asked for 2 GiB in forward with 15.5
                                GiB in use; largest owners: layers.3.mlp 4 GiB

 * recommended; • no other is both faster and smaller
 step ms: median ± half of its 95 % interval; × none: step time over none's;
 peak GiB: the most that tensors held at once; −GiB: below none's peak
 no room at 80 columns for samples/s, exposed ms, hidden %

 Recommended: checkpoint:full,inputs=host: the fastest of two that keep 16 GiB

 note: the gradients of none differ from run to run; those marked ≈ differ from
       them by no more than that
)");
}

TEST_CASE("the peak of a command is process memory on a CPU and tensor memory on a GPU") {
  Report report;
  report.rows = {worked("command", 250, 1, 2 * kGiB)};
  report.rows[0].command = {"python", "train.py"};
  report.device = "CPU (2 cores)";
  CHECK(has(table(report, {false, 140}), "peak GiB: the most resident memory of a process"));
  CHECK(has(markdown(report),
            "- **Peak**: the most resident memory of a process, the interpreter and libraries included"));
  report.device = "NVIDIA H200";
  CHECK(has(table(report, {false, 140}), "peak GiB: the most that tensors held at once"));
}

TEST_CASE("no table line is wider than the terminal") {
  for (int width : {60, 72, 80, 90, 100, 120, 140, 200}) {
    CAPTURE(width);
    CHECK(widest(table(sample_report(), {false, width})) <= width);
  }
}

TEST_CASE("a name adds no line to the table and reverses no text") {
  const auto with = [](const std::string& end) {
    Report report = sample_report();
    for (result::TrialResultRow& row : report.rows) row.measurement.strategy += end;
    return table(report, {false, 200});
  };
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const std::string text = with("\n\xE2\x80\xA8\xE2\x80\xAE");
  CHECK(lines(text) == lines(with("abc")));
  CHECK_FALSE(has(text, "\xE2\x80\xA8"));
  CHECK_FALSE(has(text, "\xE2\x80\xAE"));
}

TEST_CASE("color adds escapes around the same characters and is off by default") {
  std::string plain = table(sample_report(), {false, 100}), colored = table(sample_report(), {true, 100});
  CHECK_FALSE(has(plain, "\x1b"));
  std::string stripped;
  for (size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\x1b')
      i = colored.find('m', i);
    else
      stripped += colored[i];
  }
  CHECK(stripped == plain);
  CHECK(has(colored, "\x1b[1;32m*\x1b[0m"));
  CHECK(has(colored, "\x1b[33m≈ 1.2e-04\x1b[0m"));
}

TEST_CASE("a toy model is reported in MiB with more digits of time and without empty columns") {
  Report report;
  report.rows = {worked("none", 8, 0.5, 3 << 20), worked("checkpoint:full", 12, 0.25, 3 << 19)};
  std::string text = table(report);
  CHECK(has(text, "step ms  × none  peak MiB  −MiB  samples/s  gradients\n"));
  CHECK(has(text, "checkpoint:full  12.000 ± 0.250    1.50      1.50  1.50        333  equal\n"));
  CHECK_FALSE(has(text, "hidden"));
}

TEST_CASE("more memory than the reference is shown as a plus") {
  Report report;
  report.rows = {worked("none", 100, 0, 2 * kGiB), worked("offload:sync", 200, 0, 3 * kGiB)};
  CHECK(has(table(report), "3.00  +1.00"));
}

TEST_CASE("tokens per second replace samples if every trial has them") {
  Report report = sample_report();
  for (memtune::result::TrialResultRow& row : report.rows)
    row.measurement.tokens_per_s = row.measurement.samples_per_s * 4096;
  CHECK(has(table(report, {false, 140}), "  tokens/s  "));
  report.rows[3].measurement.tokens_per_s = 0;
  CHECK(has(table(report, {false, 140}), "  samples/s  "));
}

TEST_CASE("a reference with a long name is explained below the table") {
  Report report;
  report.reference = "checkpoint:full";
  report.rows = {worked("checkpoint:full", 300, 0, kGiB), worked("checkpoint:op", 150, 0, 2 * kGiB)};
  std::string text = table(report);
  CHECK(has(text, "× ref"));
  CHECK(has(text, "150.0 ± 0.0   0.50"));
  CHECK(has(text, "\n ref: checkpoint:full\n"));
}

TEST_CASE("batch and sequence are columns if they are axes and are part of the recommendation") {
  Report report;
  report.rows = {worked("none", 100, 0, kGiB)};
  report.rows[0].batch = 8;
  report.rows[0].sequence = 512;
  report.recommendation = {"none", "it fits", true, 8, 512};
  std::string text = table(report);
  CHECK(has(text, "   strategy  batch  seq      step ms  × none"));
  CHECK(has(text, "   none          8  512  100.0 ± 0.0    1.00"));
  CHECK(has(text, " Recommended: none, batch 8, seq 512: it fits\n"));
}

TEST_CASE("the table says that nothing fits") {
  Report report;
  report.rows = {worked("none", 100, 0, kGiB)};
  report.recommendation = {"none", "nothing fits 512 MiB: the least that works is none at 1 GiB", false, {}, {}};
  CHECK(has(table(report), " No recommendation: nothing fits 512 MiB: the least that works is none at 1 GiB\n"));
}

TEST_CASE("trials that all failed are listed with their reasons") {
  Report report;
  report.rows = {failed("none", memtune::result::TrialOutcome::crash, "signal 11 in warmup"),
                 failed("checkpoint:full", memtune::result::TrialOutcome::timeout, "")};
  CHECK(table(report) ==
        " ✗ none             crash: signal 11 in warmup\n"
        " ✗ checkpoint:full  timeout\n");
}

TEST_CASE("notes and noise and emulation are reported below the table") {
  Report report;
  report.rows = {worked("none", 100, 10, kGiB)};
  report.rows[0].measurement.noisy = true;
  report.emulated = true;
  report.notes = {"dropout is fixed by the trace"};
  std::string text = table(report, {false, 110});
  CHECK(has(text, "\n note: dropout is fixed by the trace\n"));
  CHECK(has(text, "\n note: steps vary by 20 %: times that differ by less may be the same\n"));
  CHECK(has(text, "\n note: emulation: the CPU acts as a GPU. Use it to compare memory and to check gradients; "));
  CHECK(has(text, "nothing about a GPU\n"));
}

TEST_CASE("one note names all noisy trials with their axes") {
  Report report;
  report.rows = {worked("none", 100, 10, kGiB), worked("none", 200, 40, kGiB), worked("checkpoint:full", 100, 1, kGiB)};
  for (int i : {0, 1}) report.rows[i].measurement.noisy = true;
  report.rows[1].batch = 8;
  CHECK(has(table(report, {false, 110}),
            "\n note: steps of none; none, batch 8 vary by up to 40 %: times that differ by less may be the same\n"));
}

TEST_CASE("the title says that the device is emulated") {
  Report report;
  report.model = "model.pt";
  report.device = "CPU (2 cores)";
  report.emulated = true;
  CHECK(table(report).starts_with(" model.pt · CPU (2 cores), emulating a GPU\n"));
}

TEST_CASE("the three heaviest findings follow the recommendation and wrap like it") {
  Report report;
  report.rows = {worked("none", 100, 0, kGiB)};
  report.recommendation = {"none", "it fits", true, {}, {}};
  for (const char* what : {"copies in exposed 41 ms a step", "copies out exposed 9 ms a step, which is a lot of time",
                           "the device is idle", "steps vary"}) {
    report.findings.push_back({findings::Severity::advice, "rule", what, "turn it", 0, 0, 0, {}});
  }
  CHECK(has(table(report, {false, 60}),
            " Recommended: none: it fits\n\n"
            " Findings: copies in exposed 41 ms a step: turn it\n"
            "           copies out exposed 9 ms a step, which is a lot of\n"
            "           time: turn it\n"
            "           the device is idle: turn it\n"));
  CHECK_FALSE(has(table(report), "steps vary"));
}

TEST_CASE("the table ends with command and versions and machine and date as far as known") {
  Report report;
  report.rows = {worked("none", 100, 0, kGiB)};
  report.origin = {"2026-11-22T07:30:00Z", "memtune sweep --model 'a b.pt'", "a b.pt", "0.1.0", "2.11.0", "580.65",
                   "AMD EPYC, 4 cores"};
  CHECK(
      table(report).ends_with("\n memtune 0.1.0, PyTorch 2.11.0, driver 580.65 · AMD EPYC, 4 cores · "
                              "2026-11-22 07:30 UTC\n $ memtune sweep --model 'a b.pt'\n"));
  report.origin = {"", "", "", "0.1.0", "", "", ""};
  CHECK(table(report).ends_with("\n memtune 0.1.0\n"));
}

TEST_CASE("an empty report says so") { CHECK(table(Report{}) == " no trials\n"); }

TEST_CASE("gradients of a single trial are not compared and not called the reference") {
  Report report = report::sample_report();
  std::erase_if(report.rows,
                [&](const result::TrialResultRow& row) { return row.measurement.strategy != report.reference; });
  REQUIRE(report.rows.size() == 1);
  const std::string text = report::table(report, {false, 120});
  CHECK(text.find("not compared") != std::string::npos);
  CHECK(text.find("reference") == std::string::npos);
}

}  // namespace memtune::table_test
