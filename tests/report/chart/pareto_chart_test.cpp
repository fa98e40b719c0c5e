#include "core/answer/report/chart/pareto_chart.h"

#include <doctest/doctest.h>

#include "core/answer/report/chart/bar_charts.h"
#include "core/answer/result/pareto.h"
#include "tests/report/sample.h"

namespace memtune::pareto_chart_test {

using namespace memtune;
using report::kGiB;
using report::Report;
using result::ParetoPlot;

TEST_CASE("trials that worked are points in GiB and ms and the front is ordered by peak") {
  const Report report = report::sample_report();
  const ParetoPlot plot = result::pareto_plot_of(report.rows, report.budget_bytes);
  CHECK(plot.unit.name == std::string("GiB"));
  CHECK(plot.points.size() == 4);
  REQUIRE(plot.fronts.size() == 1);
  std::vector<double> peaks;
  for (const result::ParetoPlotPoint& point : plot.fronts[0]) peaks.push_back(point.peak);
  CHECK(peaks == std::vector<double>{12, 20, 36});
}

TEST_CASE("the axes contain every point with a margin") {
  const Report report = report::sample_report();
  const ParetoPlot plot = result::pareto_plot_of(report.rows, report.budget_bytes);
  CHECK(plot.least_peak < 12);
  CHECK(plot.most_peak > 36);
  CHECK(plot.least_time < 250);
}

TEST_CASE("the axes contain a budget that is near and leave one out that is far away") {
  const Report report = report::sample_report();
  const ParetoPlot near = result::pareto_plot_of(report.rows, 10 * kGiB);
  CHECK(near.budget == 10);
  CHECK(near.least_peak < 10);
  const ParetoPlot far = result::pareto_plot_of(report.rows, 200 * kGiB);
  CHECK(far.budget == 0);
  CHECK(far.most_peak < 40);
}

TEST_CASE("a trial that is far slower does not flatten the others unless it is recommended") {
  Report report = report::sample_report();
  report.rows[2].measurement.step_ms.median = 5000;
  ParetoPlot plot = result::pareto_plot_of(report.rows, report.budget_bytes);
  CHECK(plot.points.back().beyond);
  CHECK(plot.most_time < 400);
  for (result::TrialResultRow& row : report.rows) row.recommended = false;
  report.rows[2].recommended = true;
  plot = result::pareto_plot_of(report.rows, report.budget_bytes);
  CHECK_FALSE(plot.points.back().beyond);
  CHECK(plot.most_time > 5000);
}

TEST_CASE("with a batch axis times are per sample and every batch has a front") {
  Report report = report::sample_report();
  report.rows[1].batch = 1;
  report.rows[3].batch = 2;
  report.rows[3].measurement.samples_per_s = 100;
  const ParetoPlot plot = result::pareto_plot_of(report.rows, report.budget_bytes);
  CHECK(plot.time_name == "ms a sample");
  CHECK(plot.fronts.size() == 3);  // one of them without a batch
  CHECK(plot.points.front().time == 10);
}

TEST_CASE("no chart is drawn if no trial worked") {
  Report report;
  report.rows.push_back(report::failed("none", result::TrialOutcome::crash, ""));
  CHECK(result::pareto_plot_of(report.rows, report.budget_bytes).points.empty());
  CHECK(report::pareto_chart(report) == "");
  CHECK(report::step_chart(report) == "");
  CHECK(report::overlap_chart(report) == "");
}

TEST_CASE("a single trial is drawn") {
  Report report;
  report.rows.push_back(report::worked("none", 100, 1, kGiB));
  CHECK(report::pareto_chart(report).find(">none<") != std::string::npos);
  CHECK(report::pareto_chart(report).find("nan") == std::string::npos);
}

TEST_CASE("the chart shows the names of all trials and the budget and the recommended trial") {
  Report report = report::sample_report();
  report.budget_bytes = 16 * kGiB;
  const std::string chart = report::pareto_chart(report);
  for (const char* name : {">none<", ">checkpoint:op<", ">checkpoint:full,inputs=host<", ">budget<"})
    CHECK_MESSAGE(chart.find(name) != std::string::npos, name);
  CHECK(chart.find("class=\"chosen\"") != std::string::npos);
  CHECK(chart.find("<title>none: 250.0 ms, 36.00 GiB</title>") != std::string::npos);
  report.budget_bytes = 0;
  CHECK(report::pareto_chart(report).find(">budget<") == std::string::npos);
}

TEST_CASE("the tooltip of a step time bar has its interval") {
  CHECK(report::step_chart(report::sample_report()).find("<title>offload:stream: 500.0 ± 10.0 ms</title>") !=
        std::string::npos);
}

TEST_CASE("the copy bar is split into hidden and exposed time") {
  const std::string chart = report::overlap_chart(report::sample_report());
  CHECK(chart.find("<title>hidden 200.0 ms</title>") != std::string::npos);
  CHECK(chart.find("<title>exposed 200.0 ms</title>") != std::string::npos);
  CHECK(chart.find("<title>out 10 GiB</title>") != std::string::npos);
  CHECK(chart.find("disk") == std::string::npos);
  CHECK(chart.find(">none<") == std::string::npos);  // it offloads nothing
}

TEST_CASE("fully hidden copies get the time of their bytes at the measured bandwidth") {
  Report report = report::sample_report();
  report.rows[1].measurement.transfer.hidden = 1;
  report.rows[1].measurement.transfer.exposed_ms = 0;
  CHECK(report::overlap_chart(report).find("<title>hidden 21.5 ms</title>") != std::string::npos);
}

TEST_CASE("a plan is a diamond and its predicted point is hollow and within the axes") {
  Report report = report::sample_report();
  CHECK_FALSE(report::pareto_chart(report).find("\"predicted\"") != std::string::npos);
  report.rows[4].measurement.strategy = "plan:20GiB";
  report.rows[4].predicted = {220, 44 * kGiB};  // measured: 275 ms and 20 GiB
  const ParetoPlot plot = result::pareto_plot_of(report.rows, 0);
  CHECK(plot.points[1].predicted_time == doctest::Approx(220));
  CHECK(plot.points[1].predicted_peak == doctest::Approx(44));
  CHECK(plot.points[0].predicted_time == 0);
  CHECK(plot.least_time < 220);
  CHECK(plot.most_peak > 44);
  const std::string chart = report::pareto_chart(report);
  CHECK(chart.find("class=\"predicted\"") != std::string::npos);
  CHECK(chart.find("plan:20GiB: 275.0 ms, 20.00 GiB; predicted 220.0 ms, 44.00 GiB") != std::string::npos);
  report.rows[4].measurement.strategy = "mine";
  const std::string dots = report::pareto_chart(report);
  const auto count = [](const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count(chart, "<circle") + 1 == count(dots, "<circle"));
  report.rows[4].predicted = {2200, 44 * kGiB};
  CHECK(result::pareto_plot_of(report.rows, 0).most_time < 600);  // the prediction does not flatten the others
}

TEST_CASE("the frontier uses the plot's time unit and omits plans far slower than the trials") {
  Report report = report::sample_report();
  report.frontiers = {{{}, {}, {{900, 8 * kGiB}, {300, 10 * kGiB}, {250, 40 * kGiB}}},
                      {8, {}, {{1, kGiB}, {2, 2 * kGiB}}}};  // a batch without trials
  const auto plot = result::pareto_plot_of(report.rows, 0, report.frontiers);
  REQUIRE(plot.frontiers.size() == 1);
  REQUIRE(plot.frontiers[0].size() == 2);
  CHECK(plot.frontiers[0][0].peak == 10);
  CHECK(plot.frontiers[0][0].time == doctest::Approx(300));
  CHECK(plot.least_peak < 10);
  CHECK(plot.most_peak > 40);
  const std::string chart = report::pareto_chart(report);
  CHECK(chart.find("class=\"frontier\"") != std::string::npos);
  CHECK(chart.find("a predicted plan: 300.0 ms, 10.00 GiB") != std::string::npos);
}

TEST_CASE("the frontier counts per sample if the plot does") {
  Report report = report::sample_report();
  for (auto& row : report.rows) row.batch = 4;
  report.rows[3].batch = 8;
  report.frontiers = {{4, {}, {{320, 10 * kGiB}, {275, 20 * kGiB}}}};
  const auto plot = result::pareto_plot_of(report.rows, 0, report.frontiers);
  const result::WorkNormalizedTrialComparator ranking{std::span<const result::TrialResultRow>(report.rows)};
  REQUIRE(plot.frontiers.size() == 1);
  CHECK(plot.frontiers[0][1].time == doctest::Approx(ranking.time(report.rows[4])));
}

}  // namespace memtune::pareto_chart_test
