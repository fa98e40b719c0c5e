#include "core/report/markdown.h"

#include <doctest/doctest.h>

#include "tests/report/sample.h"

using namespace memtune;
using report::markdown;
using report::Report;

TEST_CASE("the whole answer") {
  CHECK(markdown(report::sample_report()) == R"(## model.pt

NVIDIA H200  
tokens:int64\[4,4096\]\<32000, next_token, adamw, bfloat16

**Recommended:** checkpoint:full,inputs=host: the fastest of two that keep 16 GiB

|  | strategy | step ms | × none | peak GiB | −GiB | hidden % | exposed ms | samples/s | gradients |
| :-- | :-- | --: | --: | --: | --: | --: | --: | --: | :-- |
| • | none | 250.0 ±  1.0 | 1.00 | 36.00 | – | – | – | 16.00 | reference |
| • | checkpoint:op | 275.0 ±  0.2 | 1.10 | 20.00 | 16.00 | – | – | 14.55 | equal |
| \* | **checkpoint:full,inputs=host** | 320.0 ±  0.5 | 1.28 | 12.00 | 24.00 | 98 | 0.7 | 12.50 | equal |
|  | offload:stream | 500.0 ± 10.0 | 2.00 | 14.00 | 22.00 | 50 | 200.0 | 8.00 | ≈ 1.2e-04 |

\* recommended; • no other is both faster and smaller

- ✗ offload:sync: device_oom: asked for 2 GiB in forward with 15.5 GiB in use; largest owners: layers.3.mlp 4 GiB

- note: the gradients of none differ from run to run; those marked ≈ differ from them by no more than that

memtune 0.1.0
)");
}

TEST_CASE("names are no markup, in the table and outside of it") {
  Report report;
  report.model = "<b>*m*</b> |x|";
  report.rows.push_back(report::worked("a|b_c `d` _e", 100, 1, report::kGiB));
  report.notes = {"two\nlines [link](x)"};
  const std::string text = markdown(report);
  CHECK(text.starts_with("## \\<b\\>\\*m\\*\\</b\\> \\|x\\|\n"));
  CHECK(text.find("|  | a\\|b_c \\`d\\` \\_e |") != std::string::npos);
  CHECK(text.find("- note: two lines \\[link\\](x)\n") != std::string::npos);
}

TEST_CASE("no trial, no table") { CHECK(markdown({}).find("| --") == std::string::npos); }

TEST_CASE("findings are listed") {
  Report report = report::sample_report();
  report.findings.push_back({findings::Severity::advice, "rule", "copies are late", "prefetch more", 0, 0, 0, {}});
  CHECK(markdown(report).find("\n- finding: copies are late: prefetch more\n") != std::string::npos);
}
