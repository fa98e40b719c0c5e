#include "core/answer/report/text/pareto_plot.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/layout.h"
#include "core/base/text.h"
#include "tests/report/sample.h"

namespace memtune::pareto_plot_test {

using namespace memtune;
using report::pareto_plot;
using report::Report;

TEST_CASE("the plot on a terminal of 60 columns") {
  CHECK(pareto_plot(report::sample_report(), {false, 60}) == R"( step ms
        │
    500 ┤       d
        │
        │
        │
        │
        │
    400 ┤
        │
        │
        │
        │
        │   c⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⡇
    300 ┤                 ⡇
        │                 b⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀
        │                                            ⢸
        │                                            ⠘a
        │
        └─────────────────┴────────────────┴──────────────
                         20               30
                                                  peak GiB
 • a  none                           250.0 ms   36.00 GiB
 • b  checkpoint:op                  275.0 ms   20.00 GiB
 * c  checkpoint:full,inputs=host    320.0 ms   12.00 GiB
   d  offload:stream                 500.0 ms   14.00 GiB

 * recommended; • no other is both faster and smaller
)");
}

TEST_CASE("the budget is a line beside the trials that it hides none of") {
  Report report = report::sample_report();
  for (const int64_t gib : {10, 12, 28, 36}) {
    CAPTURE(gib);
    report.budget_bytes = gib * report::kGiB;
    const std::vector<std::string> lines = split(pareto_plot(report, {false, 60}), '\n');
    size_t drawn = 0;
    for (const std::string& line : lines)
      drawn += line.find("│") != std::string::npos && line.find("┆") != std::string::npos;
    CHECK(drawn >= 14);
    CHECK(std::ranges::count(lines, " ┆ the budget, " + fixed(static_cast<double>(gib), 2) + " GiB") == 1);
    for (const char letter : {'a', 'b', 'c', 'd'})
      CHECK(std::ranges::count_if(lines, [&](const std::string& line) {
              const size_t bar = std::min(line.find("│"), line.find("┤"));
              return bar != std::string::npos && line.find(letter, bar) != std::string::npos;
            }) == 1);
  }
  report.budget_bytes = 0;
  CHECK(pareto_plot(report, {false, 60}).find("┆") == std::string::npos);
}

TEST_CASE("no plot line is wider than the terminal down to 40 columns") {
  Report report = report::sample_report();
  report.rows[1].measurement.strategy += std::string(80, 'x');
  report.rows[2].measurement.step_ms.median = 5000;
  for (int width : {40, 57, 100, 160, 300}) {
    CAPTURE(width);
    int widest = 0;
    for (const std::string& line : split(pareto_plot(report, {false, width}), '\n'))
      widest = std::max(widest, display_width(line));
    CHECK(widest <= std::min(width, 160));
    CHECK(widest >= std::min(width, 160) - 2);
  }
}

TEST_CASE("the plot has colors only on request") {
  CHECK(pareto_plot(report::sample_report(), {false, 80}).find('\x1b') == std::string::npos);
  CHECK(pareto_plot(report::sample_report(), {true, 80}).find("\x1b[1;32ma") == std::string::npos);
  CHECK(pareto_plot(report::sample_report(), {true, 80}).find("\x1b[1;32mc") != std::string::npos);
}

TEST_CASE("trials at one point get marks next to each other") {
  Report report;
  for (const char* name : {"one", "two"}) report.rows.push_back(report::worked(name, 100, 1, 4 * report::kGiB));
  const std::string plot = pareto_plot(report, {false, 60});
  CHECK(plot.find("ab") + plot.find("ba") != std::string::npos);
}

TEST_CASE("the plot says that no trial worked") { CHECK(pareto_plot({}, {}) == " no trial worked\n"); }

TEST_CASE("predicted plans are hollow diamonds on a dotted line with an entry in the key") {
  Report report = report::sample_report();
  report.frontiers = {{{}, {}, {{400, 10 * report::kGiB}, {300, 16 * report::kGiB}, {250, 36 * report::kGiB}}}};
  const std::string plot = pareto_plot(report, {false, 60});
  CHECK(split(plot.substr(0, plot.find("peak GiB")), '\n').size() > 18);
  size_t diamonds = 0;
  for (size_t at = plot.find("◇"); at != std::string::npos; at = plot.find("◇", at + 1)) ++diamonds;
  CHECK(diamonds == 4);  // including the one in the key
  CHECK(plot.find(" ◇ the best plans for other budgets, predicted\n") != std::string::npos);
  CHECK(pareto_plot(report::sample_report(), {false, 60}).find("◇") == std::string::npos);
}

}  // namespace memtune::pareto_plot_test
