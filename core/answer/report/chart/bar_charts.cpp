#include "core/answer/report/chart/bar_charts.h"

#include <algorithm>
#include <cmath>

#include "core/answer/report/chart/chart.h"
#include "core/answer/report/words.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/median.h"

namespace memtune::report {
namespace {

using result::StepHostDeviceCopyStats;
using result::TrialMeasurement;
using result::TrialResultRow;

constexpr double kRow = 24, kBar = 12, kTop = 28, kLabels = 216;
constexpr int kLabelCharacters = 30;

std::vector<const TrialResultRow*> rows_with(const Report& report, bool (*wanted)(const TrialMeasurement&)) {
  std::vector<const TrialResultRow*> rows;
  for (const TrialResultRow* row : ranked(report.rows)) {
    if (worked(*row) && wanted(row->measurement)) rows.push_back(row);
  }
  return rows;
}

PlotAreaRect frame_for(size_t rows, double left, double right) {
  return {left, kTop, right, kTop + kRow * static_cast<double>(rows)};
}

double middle_of(size_t row) { return kTop + kRow * (static_cast<double>(row) + 0.5); }

void put_names(SvgWriter& svg, const std::vector<const TrialResultRow*>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    svg.text({kLabels - 8, middle_of(i) + 4}, shorten(label(*rows[i]), kLabelCharacters), TextAnchor::end,
             rows[i]->recommended ? "label strong" : "label");
  }
}

// Upper end of the axis. Bars over twice the median are cut, because they would flatten the others.
double longest_bar(const std::vector<const TrialResultRow*>& rows) {
  std::vector<double> times;
  for (const TrialResultRow* row : rows)
    times.push_back(std::max({row->measurement.step_ms.high, row->measurement.step_ms.median, 1e-9}));
  const double limit = 2 * upper_median(times);
  double longest = 0;
  for (const double time : times)
    if (time <= limit) longest = std::max(longest, time);
  return longest * 1.02;
}

void put_step(SvgWriter& svg, const AxisScale& x, double middle, const TrialResultRow& row) {
  const result::StepTimeStats& time = row.measurement.step_ms;
  const bool cut = time.median > x.high;
  const double end = x(std::min(time.median, x.high));
  const std::string half = " ± " + fixed((time.high - time.low) / 2, 1);
  svg.bar({x.from, middle - kBar / 2}, end - x.from, kBar, row.recommended ? "chosen" : "s4",
          label(row) + ": " + fixed(time.median, 1) + half + " ms");
  if (!cut) {
    const double low = x(std::max(0.0, time.low)), high = x(std::min(x.high, time.high));
    svg.line({low, middle}, {high, middle}, "interval");
    for (double at : {low, high}) svg.line({at, middle - 4}, {at, middle + 4}, "interval");
  }
  svg.text({kChartWidth - 96, middle + 4}, (cut ? "→ " : "") + fixed(time.median, 1) + half, TextAnchor::start,
           "label");
}

// Time per step in which copies ran. If all of it was hidden, it is estimated from bytes and rates.
double copy_ms(const StepHostDeviceCopyStats& t) {
  if (t.hidden < 0.999) return t.exposed_ms / (1 - t.hidden);
  const auto ms = [](int64_t bytes, double gb_per_s) {
    return gb_per_s > 0 ? static_cast<double>(bytes) / gb_per_s / 1e6 : 0;
  };
  return std::max(ms(t.out_bytes, t.out_gb_per_s), ms(t.in_bytes, t.in_gb_per_s));
}

void put_copy_time(SvgWriter& svg, const AxisScale& x, double middle, const StepHostDeviceCopyStats& t) {
  const double hidden_ms = std::max(0.0, copy_ms(t) - t.exposed_ms);
  svg.bar({x.from, middle - kBar / 2}, x(hidden_ms) - x.from, kBar, "s2", "hidden " + fixed(hidden_ms, 1) + " ms");
  svg.bar({x(hidden_ms), middle - kBar / 2}, x(t.exposed_ms) - x.from, kBar, "s5",
          "exposed " + fixed(t.exposed_ms, 1) + " ms");
}

void put_bytes(SvgWriter& svg, const AxisScale& x, double middle, const StepHostDeviceCopyStats& t) {
  const struct {
    int64_t bytes;
    const char *style, *name;
  } kParts[] = {{t.out_bytes, "s0", "out "},
                {t.in_bytes, "s1", "in "},
                {t.disk_write_bytes, "s3", "to disk "},
                {t.disk_read_bytes, "s6", "from disk "}};
  const int shown = t.disk_write_bytes + t.disk_read_bytes > 0 ? 4 : 2;
  const double height = 14.0 / shown;
  for (int i = 0; i < shown; ++i) {
    svg.bar({x.from, middle - 7 + height * i}, x(static_cast<double>(kParts[i].bytes)) - x.from, height - 0.5,
            kParts[i].style, kParts[i].name + format_bytes(kParts[i].bytes));
  }
}

}  // namespace

std::string step_chart(const Report& report) {
  const auto rows = rows_with(report, [](const TrialMeasurement& m) { return m.step_ms.median > 0; });
  if (rows.empty()) return "";
  const PlotAreaRect frame = frame_for(rows.size(), kLabels, kChartWidth - 108);
  SvgWriter svg(kChartWidth, static_cast<int>(frame.bottom) + 42, "Step time of every trial");
  const AxisScale x{0, longest_bar(rows), frame.left, frame.right};
  put_x_axis(svg, frame, x, "step ms, with the 95 % interval of the median");
  put_names(svg, rows);
  for (size_t i = 0; i < rows.size(); ++i) put_step(svg, x, middle_of(i), *rows[i]);
  return std::move(svg).finish();
}

std::string overlap_chart(const Report& report) {
  const auto rows =
      rows_with(report, [](const TrialMeasurement& m) { return m.transfer.out_bytes + m.transfer.in_bytes > 0; });
  if (rows.empty()) return "";
  double most_ms = 0, most_bytes = 0;
  bool disk = false;
  for (const TrialResultRow* row : rows) {
    const StepHostDeviceCopyStats& t = row->measurement.transfer;
    most_ms = std::max(most_ms, copy_ms(t));
    most_bytes = std::max(most_bytes, static_cast<double>(std::max(t.out_bytes, t.in_bytes)));
    disk |= t.disk_write_bytes + t.disk_read_bytes > 0;
  }
  const ByteDisplayUnit unit = unit_for(static_cast<int64_t>(most_bytes));
  const double middle = (kLabels + kChartWidth - 16) / 2 + 40;
  const PlotAreaRect times = frame_for(rows.size(), kLabels, middle - 40);
  const PlotAreaRect sizes = frame_for(rows.size(), middle, kChartWidth - 16);
  SvgWriter svg(kChartWidth, static_cast<int>(times.bottom) + (disk ? 86 : 68),
                "Copies between device and host: time hidden, bytes copied");
  const AxisScale ms{0, std::max(most_ms, 1e-3) * 1.04, times.left, times.right};
  const AxisScale bytes{0, most_bytes * 1.04, sizes.left, sizes.right};
  put_x_axis(svg, times, ms, "copy ms a step");
  put_x_axis(svg, sizes, {0, bytes.high / unit.bytes, sizes.left, sizes.right}, std::string(unit.name) + " a step");
  put_names(svg, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    put_copy_time(svg, ms, middle_of(i), rows[i]->measurement.transfer);
    put_bytes(svg, bytes, middle_of(i), rows[i]->measurement.transfer);
  }
  put_legend(svg, {times.left, times.bottom + 56}, middle, {{"s2", "hidden"}, {"s5", "exposed"}});
  std::vector<LegendEntry> directions = {{"s0", "out"}, {"s1", "in"}};
  if (disk) directions.insert(directions.end(), {{"s3", "to disk"}, {"s6", "from disk"}});
  put_legend(svg, {sizes.left, sizes.bottom + 56}, kChartWidth, directions);
  return std::move(svg).finish();
}

}  // namespace memtune::report
