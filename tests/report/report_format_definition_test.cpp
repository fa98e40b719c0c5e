// One table defines the formats for the command line, file names and hints. These tests check its contents.
#include "core/answer/report/report_format_definition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "core/answer/report/text/table.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "tests/report/made_up_trace.h"
#include "tests/report/sample.h"
#include "tests/support/out_of_memory_breakdown.h"

namespace memtune::report_format_test {

using namespace memtune;
using report::ReportFormatDefinition;
using report::ReportWriterInput;

namespace {

// Counts control characters except line feeds.
size_t control_characters(const std::string& text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]), before = static_cast<unsigned char>(i > 0 ? text[i - 1] : 0);
    count += (byte < 0x20 && byte != '\n') || byte == 0x7F || (before == 0xC2 && byte >= 0x80 && byte < 0xA0) ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("every format has a unique name and writes a sweep and its traces") {
  const report::Report report = report::sample_report();
  const trace::Trace trace = test::made_up_trace("none", 2, 1);
  const std::vector<report::TrialWithTraceForMemoryChart> traced = {{&report.rows[3], &trace}};
  std::set<std::string> names;
  for (const ReportFormatDefinition& format : report::formats()) {
    CAPTURE(format.name);
    CHECK(names.insert(format.name).second);
    CHECK(report::find_format(format.name).name == std::string(format.name));
    ReportWriterInput shown{report, {}, {}, nullptr};
    if (format.shows_memory) shown.traced = traced;
    if (format.per_trial) shown.trace = &trace;
    CHECK(format.write(shown).size() > 20);
  }
}

TEST_CASE("a binary format has a default file and all other formats are text") {
  const report::Report report = report::sample_report();
  const trace::Trace trace = test::made_up_trace("none", 2, 1);
  for (const ReportFormatDefinition& format : report::formats()) {
    CAPTURE(format.name);
    const std::string text = format.write({report, {}, {}, &trace});
    CHECK((text.find('\0') != std::string::npos) == format.binary);
    if (format.binary) CHECK(*format.default_file);
  }
}

TEST_CASE("an unknown format is refused with a suggestion") {
  CHECK_THROWS_WITH_AS(report::find_format("tabel"), doctest::Contains("unknown format 'tabel'; did you mean 'table'?"),
                       UsageError);
}

TEST_CASE("every report format names the part of a strategy that had no effect") {
  report::Report report = report::sample_report();
  report.rows = {report::worked("checkpoint:cheap", 250, 1, 36 * report::kGiB),
                 report::worked("checkpoint:cheap+offload:stream", 200, 1, 36 * report::kGiB)};
  for (result::TrialResultRow& row : report.rows) row.measurement.recomputed_bytes = 1;
  report.recommendation = result::recommend(report.rows, 0, result::RecommendationGoal::throughput);
  result::mark_rows(report.rows, report.recommendation);
  for (const std::string name : {"table", "json", "csv", "markdown", "html"}) {
    CAPTURE(name);
    std::string text = report::find_format(name).write({report, {}, {}, nullptr});
    for (size_t at; (at = text.find("<wbr>")) != std::string::npos;) text.erase(at, 5);
    CHECK(text.find("equal to checkpoint:cheap: nothing was offloaded") != std::string::npos);
    if (name != "json" && name != "csv")
      CHECK(text.find("checkpoint:cheap+offload:stream = checkpoint:cheap") != std::string::npos);
  }
  CHECK(report.recommendation.strategy == "checkpoint:cheap");
}

TEST_CASE("every report format has PyTorch's whole out-of-memory message") {
  report::Report report = report::sample_report();
  const std::string text = test::out_of_memory_text(8);
  report.rows[0].measurement.reason = "OutOfMemoryError: " + text + " (after step 3 of 7)";
  const auto letters = [](const std::string& lines) {  // lines are wrapped and Markdown escapes
    std::string kept;
    std::ranges::copy_if(lines, std::back_inserter(kept), [](char c) { return c != ' ' && c != '\n' && c != '\\'; });
    return kept;
  };
  for (const std::string name : {"table", "json", "csv", "markdown", "html"}) {
    CAPTURE(name);
    const std::string written = report::find_format(name).write({report, {}, {}, nullptr});
    CHECK(letters(written).find(letters(text)) != std::string::npos);
  }
  for (const std::string& line : split(report::table(report, {.width = 90}), '\n'))
    if (line.find("https:") == std::string::npos) CHECK(display_width(line) <= 90);
}

TEST_CASE("no stdout format passes on a control character from a name") {
  const std::string evil =
      "a\x1b]0;pwned\x07\x7f\xC2\x9B"
      "31m\rb\nmemtune: c";
  report::Report report = report::sample_report();
  report.version = report.model = report.device = report.settings = report.reference = evil;
  report.origin = {evil, evil, evil, evil, evil, evil, evil};
  report.notes = {evil};
  report.findings.resize(1);
  report.findings[0].what = report.findings[0].advice = report.findings[0].alternative_strategy = evil;
  report.recommendation.strategy = report.recommendation.reason = evil;
  for (result::TrialResultRow& row : report.rows) {
    result::TrialMeasurement& m = row.measurement;
    m.strategy = m.reason = m.device = m.plan = m.trace = m.no_effect = evil;
    m.gradients.worst = m.gradients.against = evil;
  }
  trace::Trace trace = test::made_up_trace("none", 2, 1);
  trace.strategy = trace.device = evil;
  for (std::string& name : trace.names) name = evil;
  for (const ReportFormatDefinition& format : report::formats()) {
    CAPTURE(std::string(format.name));
    if (!*format.default_file) CHECK(control_characters(format.write({report, {}, {}, &trace})) == 0);
  }
}

}  // namespace memtune::report_format_test
