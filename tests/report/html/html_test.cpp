// Readers of the page have only a browser. The page must be complete, load nothing and escape all names.
#include "core/answer/report/html/html.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <tuple>

#include "tests/report/made_up_trace.h"
#include "tests/report/sample.h"

namespace memtune::html_test {

using namespace memtune;
using report::html;
using report::Report;

namespace {

bool has(const std::string& page, const std::string& text) { return page.find(text) != std::string::npos; }

size_t count(const std::string& page, const std::string& text) {
  size_t found = 0;
  for (size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("the page has the recommendation in words before the table") {
  const std::string page = html(report::sample_report(), {});
  const size_t advice = page.find("<p>checkpoint:full,inputs=host: the fastest of two that keep 16 GiB</p>");
  CHECK(advice != std::string::npos);
  CHECK(advice < page.find("<table"));
  CHECK(has(page, "<b>320.0 ms</b>a step"));
  CHECK(has(page, "<b>1.28 ×</b>the time of none"));
  CHECK(count(page, "<div class=\"figures\">") == 1);
  CHECK(count(page, "<tr class=\"chosen\">") == 1);
}

TEST_CASE("the page lists failed trials with their reasons") {
  CHECK(has(html(report::sample_report(), {}),
            "✗ offload:<wbr>sync</td><td class=\"reason\">device_oom: asked for 2 GiB in forward"));
}

TEST_CASE("a name from a user or a model cannot become markup") {
  const std::string nasty = "<script>alert('x')</script>\"&\xFF\xE2\x80\xAE";
  Report report = report::sample_report();
  report.model = report.device = report.settings = report.version = nasty;
  report.notes = {nasty};
  report.recommendation.reason = nasty;
  report.findings.push_back({findings::Severity::problem, "rule", nasty, nasty, 0, 0, 0, {}});
  for (result::TrialResultRow& row : report.rows) row.measurement.strategy = row.measurement.reason = nasty;
  trace::Trace trace = test::made_up_trace("mixed", 2, 1);
  trace.owners[0].name = trace.names[0] = nasty;
  const std::vector<report::TrialWithTraceForMemoryChart> traced = {{&report.rows[1], &trace}};
  const std::string page = html(report, traced);
  CHECK(count(page, "<script>") == 1);  // the script of the page itself
  CHECK_FALSE(has(page, "alert('x')"));
  CHECK_FALSE(has(page, "\xFF"));
  CHECK_FALSE(has(page, "\xE2\x80\xAE"));  // a bidi override, which would reverse the text after it
}

TEST_CASE("the page references nothing external") {
  trace::Trace trace = test::made_up_trace("mixed", 2, 1);
  Report report = report::sample_report();
  const std::vector<report::TrialWithTraceForMemoryChart> traced = {{&report.rows[1], &trace}};
  std::string page = html(report, traced);
  page = std::regex_replace(page, std::regex("xmlns=\"http://www.w3.org/2000/svg\""), "");
  for (const char* text : {"http:", "https:", "//", "src=", "href=", "url(", "@import"}) CHECK_FALSE(has(page, text));
}

TEST_CASE("the page has memory over time for trials with a trace on one scale") {
  trace::Trace mixed = test::made_up_trace("mixed", 4, 1), none = test::made_up_trace("none", 4, 1);
  Report report = report::sample_report();
  const std::vector<report::TrialWithTraceForMemoryChart> traced = {{&report.rows[1], &mixed},
                                                                    {&report.rows[3], &none}};
  const std::string page = html(report, traced);
  CHECK(has(page, "<h3>checkpoint:full,inputs=host, recommended</h3>"));
  CHECK(count(page, "Memory over time, by who holds it") == 2);
  CHECK_FALSE(has(html(report, {}), "Memory over time"));
}

TEST_CASE("the page shows the severity of a finding") {
  Report report = report::sample_report();
  report.findings.push_back({findings::Severity::problem, "rule", "copies are late", "prefetch more", 0, 0, 0, {}});
  CHECK(has(html(report, {}), "<li class=\"problem\"><b>problem</b> copies are late: prefetch more</li>"));
}

TEST_CASE("the page labels an emulation and names what it counts") {
  Report report = report::sample_report();
  report.emulated = true;
  const std::string page = html(report, {});
  CHECK(has(page, "emulating a GPU"));
  CHECK(has(page, "counted by an allocator on the CPU"));
}

TEST_CASE("the page is complete without trials and without a recommendation") {
  CHECK(has(html({}, {}), "There are no trials."));
  Report report = report::sample_report();
  report.recommendation = {"", "nothing fits 1 MiB", false, {}, {}};
  CHECK(has(html(report, {}), "<h2>No recommendation</h2>\n<p>nothing fits 1 MiB</p>"));
}

TEST_CASE("the page explains its columns and shows its origin") {
  Report report = report::sample_report();
  report.origin = {"2026-11-22T07:30:00Z", "memtune sweep --input 'x<3'", "", "0.1.0", "2.11.0", "", "AMD, 4 cores"};
  const std::string page = html(report, {});
  CHECK(has(page, "<th title=\"step time over none&#39;s\">× none</th>"));
  CHECK(has(page, "<dt>exposed ms</dt><dd>copy time a step that did not overlap compute</dd>"));
  CHECK(has(page, "<dt>Versions</dt><dd>memtune 0.1.0, PyTorch 2.11.0</dd>"));
  CHECK(has(page, "<dt>Date</dt><dd>2026-11-22 07:30 UTC</dd>"));
  CHECK(has(page, "<dt>Command</dt><dd><code>memtune sweep --input &#39;x&lt;3&#39;</code></dd>"));
}

TEST_CASE("a memory curve below the measured peak says why") {
  Report report = report::sample_report();
  trace::Trace trace = test::made_up_trace("mixed", 4, 1);
  const std::vector<report::TrialWithTraceForMemoryChart> traced = {{&report.rows[1], &trace}};
  CHECK(has(html(report, traced), "The measured peak is 12 GiB: the allocator reports it"));
  int64_t highest = 0;
  for (const trace::AllocatedBytesSample& sample : trace.memory) highest = std::max(highest, sample.allocated_bytes);
  report.rows[1].measurement.peak_bytes.allocated = highest;
  CHECK_FALSE(has(html(report, traced), "The measured peak is"));
}

TEST_CASE("a chart scrolls in its own box on a narrow page and the table keeps its names") {
  const std::string page = html(report::sample_report(), {});
  CHECK(count(page, "<svg ") == 3);
  CHECK(count(page, "<div class=\"wide\"><svg ") == count(page, "<svg "));
  CHECK(has(page, ".wide { overflow-x:auto; }"));
  CHECK(has(page, "min-width:580px"));
  CHECK(has(page, "position:sticky; left:0"));
}

TEST_CASE("the caption of a memory curve names the largest tensors at its peak") {
  Report report = report::sample_report();
  trace::Trace trace = test::made_up_trace("mixed", 4, 1);
  int64_t peak_ns = 0, highest = 0;
  for (const trace::AllocatedBytesSample& sample : trace.memory)
    if (sample.allocated_bytes > highest)
      std::tie(highest, peak_ns) = std::tuple(sample.allocated_bytes, sample.time_ns);
  trace.values.push_back({"layers.0/aten::silu", "layers.0", "keep", "", int64_t{3} << 30, 0});
  const uint32_t track = trace.track({trace::TrackRole::values}), name = trace.name("layers.0/aten::silu");
  for (const auto& [kind, time_ns] :
       {std::pair(trace::EventKind::save, peak_ns - 1), {trace::EventKind::use, peak_ns + 1}})
    trace.events.push_back({kind, track, name, time_ns, time_ns, 0, 0, trace::ValueId(trace.values.size() - 1)});
  const std::vector<report::TrialWithTraceForMemoryChart> traced = {{&report.rows[1], &trace}};
  const std::string page = html(report, traced);
  CHECK_MESSAGE(has(page, "The largest tensors: layers.* silu (2) 3.25 GiB"),
                page.substr(page.find("<figcaption>Peak"), 300));
}

TEST_CASE("the page has the figures of each rank in a folded section") {
  Report report = report::sample_report();
  CHECK(html(report, {}).find("Each rank") == std::string::npos);
  auto chosen = std::ranges::find_if(report.rows, &result::TrialResultRow::recommended);
  chosen->measurement.ranks = {{0, result::summarize({240}), {report::kGiB, 0, 0}, 3.5, {}},
                               {1, result::summarize({250}), {2 * report::kGiB, 0, 0}, 4.5, {}}};
  const std::string page = html(report, {});
  const size_t at = page.find("<details><summary>Each rank of checkpoint:full,inputs=host</summary>");
  REQUIRE(at != std::string::npos);
  const std::string folded = page.substr(at, page.find("</details>", at) - at);
  CHECK(folded.find("<td>240.0</td><td>1.00</td>") != std::string::npos);
  CHECK(folded.find("<td>250.0</td><td>2.00</td>") != std::string::npos);
}

}  // namespace memtune::html_test
