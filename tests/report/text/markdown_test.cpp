#include "core/answer/report/text/markdown.h"

#include <doctest/doctest.h>

#include "tests/report/sample.h"

namespace memtune::markdown_test {

using namespace memtune;
using report::markdown;
using report::Report;

TEST_CASE("the whole Markdown report") {
  CHECK(markdown(report::sample_report()) == R"(## model.pt

NVIDIA H200  
tokens:int64\[4,4096\]\<32000, next_token, adamw, bfloat16

**Recommended:** checkpoint:full,inputs=host: the fastest of two that keep 16 GiB

320.0 ms a step (1.28 × none), 12 GiB at the peak (24 GiB less than none)

|  | strategy | step ms | × none | peak GiB | −GiB | hidden % | exposed ms | samples/s | gradients |
| :-- | :-- | --: | --: | --: | --: | --: | --: | --: | :-- |
| • | none | 250.0 ±  1.0 | 1.00 | 36.00 | – | – | – | 16.00 | reference |
| • | checkpoint:op | 275.0 ±  0.2 | 1.10 | 20.00 | 16.00 | – | – | 14.55 | equal |
| \* | **checkpoint:full,inputs=host** | 320.0 ±  0.5 | 1.28 | 12.00 | 24.00 | 98 | 0.7 | 12.50 | equal |
|  | offload:stream | 500.0 ± 10.0 | 2.00 | 14.00 | 22.00 | 50 | 200.0 | 8.00 | ≈ 1.2e-04 |

\* recommended; • no other is both faster and smaller

<details><summary>What the columns mean</summary>

- **step ms**: median ± half of its 95 % interval
- **× none**: step time over none's
- **peak GiB**: the most that tensors held at once
- **−GiB**: below none's peak
- **hidden %**: share of copy time that overlapped compute
- **exposed ms**: copy time a step that did not overlap compute
- **gradients**: compared with those of none before anything was timed; ≈ the largest difference, if none's own runs differ as much

</details>

- note: the gradients of none differ from run to run; those marked ≈ differ from them by no more than that

<details><summary>Did not work (1)</summary>

- ✗ offload:sync: device_oom: asked for 2 GiB in forward with 15.5 GiB in use; largest owners: layers.3.mlp 4 GiB

</details>

<details><summary>How it was measured</summary>

- **Model**: model.pt
- **Device**: NVIDIA H200
- **Settings**: tokens:int64\[4,4096\]\<32000, next_token, adamw, bfloat16
- **Trials**: each a process of its own that trains real steps; times and peaks are of steps after warm-up
- **Step time**: the median of whole steps; ± is half of the 95 % bootstrap interval of that median
- **Peak**: the most bytes that tensors held in a step, by the caching allocator
- **Hidden**: the share of the time of copies during which the device also computed; exposed is the rest
- **Gradients**: loss and gradients compared with those of none before anything was timed, bit for bit where deterministic kernels exist
- **Copy bandwidth**: 55.0 GB/s out, 55.0 GB/s in, measured idle with pinned memory in the same process

</details>

memtune 0.1.0
)");
}

TEST_CASE("the recommendation shows the table's ratio which comes from rounds") {
  Report report = report::sample_report();
  for (const double base_ms : {200.0, 220.0}) {
    result::TrialRoundTimesAndMachineLoad round;
    round.base = "none";
    round.base_ms = base_ms;
    round.step_ms.median = 1.5 * base_ms;
    report.rows[1].measurement.rounds.push_back(round);
  }
  CHECK(markdown(report).find("320.0 ms a step (1.50 × none)") != std::string::npos);
}

TEST_CASE("Markdown escapes names in the table and outside") {
  Report report;
  report.model = "<b>*m*</b> |x|";
  report.rows.push_back(report::worked("a|b_c `d` _e", 100, 1, report::kGiB));
  report.notes = {"two\nlines [link](x)"};
  const std::string text = markdown(report);
  CHECK(text.starts_with("## \\<b\\>\\*m\\*\\</b\\> \\|x\\|\n"));
  CHECK(text.find("|  | a\\|b_c \\`d\\` \\_e |") != std::string::npos);
  CHECK(text.find("- note: two lines \\[link\\](x)\n") != std::string::npos);
}

TEST_CASE("a name at the start of a line makes no list or heading or code in Markdown") {
  const auto line = [](const std::string& settings) {
    Report report;
    report.settings = settings;
    return markdown(report).substr(std::string("## memtune\n\n").size());
  };
  CHECK(line("- a").starts_with("\\- a\n"));
  CHECK(line("    + a").starts_with("\\+ a\n"));
  CHECK(line("12. a").starts_with("12\\. a\n"));
  CHECK(line("1) a").starts_with("1\\) a\n"));
  CHECK(line("===").starts_with("\\===\n"));
  CHECK(line("---").starts_with("\\---\n"));
  CHECK(line("-1.5 a. b").starts_with("-1.5 a. b\n"));
  CHECK(line("1.5 GiB").starts_with("1.5 GiB\n"));
}

TEST_CASE("Markdown without trials has no table") { CHECK(markdown({}).find("| --") == std::string::npos); }

TEST_CASE("the command is copyable and cannot end its own code fence") {
  Report report = report::sample_report();
  report.origin.command = "memtune sweep --model '```x`'\n# more";
  report.origin.machine = "AMD_EPYC *4* cores";
  const std::string text = markdown(report);
  CHECK(text.find("\n\n````sh\nmemtune sweep --model '```x`' # more\n````\n\n</details>\n") != std::string::npos);
  CHECK(text.find("- **Machine**: AMD_EPYC \\*4\\* cores\n") != std::string::npos);
}

TEST_CASE("findings are folded in Markdown") {
  Report report = report::sample_report();
  report.findings.push_back({findings::Severity::advice, "rule", "copies are late", "prefetch more", 0, 0, 0, {}});
  CHECK(markdown(report).find("trace (1)</summary>\n\n- copies are late: prefetch more\n") != std::string::npos);
}

}  // namespace memtune::markdown_test
