// Table, plots, recommendation and diff must agree on which of two sequence lengths or batch sizes is faster.
#include <doctest/doctest.h>

#include "core/answer/report/chart/pareto_chart.h"
#include "core/answer/report/text/diff_text.h"
#include "core/answer/report/text/pareto_plot.h"
#include "core/answer/report/text/table.h"
#include "core/answer/result/pareto.h"
#include "tests/report/sample.h"
#include "tests/result/rows.h"

namespace memtune::same_answer_test {

using namespace memtune;
using report::Report;

namespace {

// Marks the rows as a sweep does.
Report report_of(std::vector<result::TrialResultRow> rows) {
  Report report;
  report.rows = std::move(rows);
  report.recommendation = result::recommend(report.rows, 0, result::RecommendationGoal::throughput);
  result::mark_rows(report.rows, report.recommendation);
  return report;
}

bool comes_first(const std::string& text, const std::string& first, const std::string& second) {
  REQUIRE(text.find(first) != std::string::npos);
  REQUIRE(text.find(second) != std::string::npos);
  return text.find(first) < text.find(second);
}

struct Case {
  const char* name;
  Report report;
  std::string fast, slow;        // labels
  std::string fast_ms, slow_ms;  // step time as the table prints it
  std::string fast_work, slow_work, title;
};

std::vector<Case> cases() {
  return {{"--seq 1024,4096", report_of(result::two_lengths()), "none, seq 4096", "none, seq 1024", "300.0", "100.0",
           "73.24 µs", "97.66 µs", "µs a token"},
          {"--batch 1,2", report_of(result::two_batches()), "none, batch 2", "none, batch 1", "150.0", "100.0",
           "75.0 ms", "100.0 ms", "ms a sample"}};
}

}  // namespace

TEST_CASE("the faster of two batch sizes or lengths is recommended and first in table and diff") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    const result::Recommendation& advice = each.report.recommendation;
    CHECK(result::label(advice.strategy, advice.batch, advice.sequence) == each.fast);
    CHECK(advice.reason.starts_with(advice.sequence ? "the only one that worked at the longest" : "the fastest of 2"));
    CHECK(comes_first(report::table(each.report), each.fast_ms, each.slow_ms));
    CHECK(comes_first(report::diff_table(result::diff(each.report.rows, each.report.rows)), each.fast, each.slow));
  }
}

TEST_CASE("the plots show the faster one lower in time per work and each one on its own front") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    const result::ParetoPlot plot = result::pareto_plot_of(each.report.rows, 0);
    CHECK(plot.time_name == each.title);
    REQUIRE(plot.points.size() == 2);
    CHECK(label(*plot.points[0].row) == each.fast);
    CHECK(plot.points[0].time < plot.points[1].time);
    CHECK(plot.fronts.size() == 2);
    for (const std::string& text : {report::pareto_chart(each.report), report::pareto_plot(each.report, {})}) {
      CHECK(text.find(each.title) != std::string::npos);
      CHECK(text.find(each.fast_work) != std::string::npos);
      CHECK(text.find(each.slow_work) != std::string::npos);
    }
  }
}

}  // namespace memtune::same_answer_test
