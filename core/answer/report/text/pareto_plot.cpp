#include "core/answer/report/text/pareto_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/answer/report/chart/svg_writer.h"
#include "core/answer/report/text/columns.h"
#include "core/answer/report/words.h"
#include "core/answer/result/pareto.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::ParetoPlot;
using result::ParetoPlotPoint;
using result::TrialResultRow;

constexpr int kMaxWidth = 160, kMinWidth = 40, kRows = 18, kMargin = 9;  // characters

// U+2800 plus the dots of a cell, two wide and four high, as bits.
std::string braille(int dots) {
  const int code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

class Canvas {
 public:
  Canvas(int width, int height) : width_(width), height_(height), dots_(width * height), marks_(width * height) {}

  void dot(int x, int y) {
    static constexpr int kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x < 0 || y < 0 || x >= 2 * width_ || y >= 4 * height_) return;
    dots_[y / 4 * width_ + x / 2] |= kBits[y % 4][x % 2];
  }

  // Sets the mark in the free cell nearest to (x, y).
  void mark(int x, int y, TableCell cell) {
    int best = -1, best_distance = 1 << 30;
    for (int row = 0; row < height_; ++row) {
      for (int column = 0; column < width_; ++column) {
        const int distance = std::abs(column - x) + 2 * std::abs(row - y);
        if (!marks_[row * width_ + column].text.empty() || distance >= best_distance) continue;
        best = row * width_ + column;
        best_distance = distance;
      }
    }
    if (best >= 0) marks_[best] = std::move(cell);
  }

  // Sets the mark where there is none.
  void fill(int x, int y, TableCell cell) {
    if (TableCell& here = marks_[y * width_ + x]; here.text.empty()) here = std::move(cell);
  }

  std::string line(int row, bool color) const {
    std::string text;
    for (int i = row * width_; i < (row + 1) * width_; ++i) {
      if (!marks_[i].text.empty())
        text += painted(marks_[i].text, marks_[i].paint, color);
      else
        text += dots_[i] ? painted(braille(dots_[i]), ReportTextHighlightKind::dim, color) : " ";
    }
    return text;
  }

 private:
  int width_, height_;
  std::vector<int> dots_;
  std::vector<TableCell> marks_;
};

class Plot {
 public:
  Plot(const ParetoPlot& plot, TerminalCapabilities style)
      : plot_(plot),
        style_(style),
        width_(std::clamp(style.width, kMinWidth, kMaxWidth) - kMargin - 2),
        canvas_(width_, kRows) {}

  std::string print() {
    for (const auto& frontier : plot_.frontiers) put_frontier(frontier);
    for (const auto& front : plot_.fronts) put_front(front);
    put_points();
    put_budget();
    text_ = std::string(" ") + plot_.time_name + "\n";
    for (int row = 0; row < kRows; ++row) put_row(row);
    put_foot();
    put_key();
    return std::move(text_);
  }

 private:
  double x_of(double peak) const { return AxisScale{plot_.least_peak, plot_.most_peak, 0, width_ - 1.0}(peak); }
  double y_of(double time) const { return AxisScale{plot_.least_time, plot_.most_time, kRows - 1.0, 0}(time); }
  double y_of(const ParetoPlotPoint& point) const { return point.beyond ? 0 : y_of(point.time); }

  static std::string letter(size_t index) {
    if (index >= 52) return "·";
    return std::string(1, static_cast<char>(index < 26 ? 'a' + index : 'A' + index - 26));
  }

  static ReportTextHighlightKind paint_of(const TrialResultRow& row) {
    return row.recommended ? ReportTextHighlightKind::good
           : row.pareto    ? ReportTextHighlightKind::bold
                           : ReportTextHighlightKind::plain;
  }

  // The front has steps, drawn in dots.
  void put_front(const std::vector<ParetoPlotPoint>& front) {
    for (size_t i = 1; i < front.size(); ++i) {
      const int from = dot_x(front[i - 1]), to = dot_x(front[i]);
      const int high = dot_y(front[i - 1]), low = dot_y(front[i]);
      for (int x = from; x <= to; ++x) canvas_.dot(x, high);
      for (int y = high; y <= low; ++y) canvas_.dot(to, y);
    }
  }
  // A dashed straight line between plans; a plan is a diamond.
  void put_frontier(const std::vector<ParetoPlotPoint>& frontier) {
    for (size_t i = 1; i < frontier.size(); ++i) {
      const int x = dot_x(frontier[i - 1]), y = dot_y(frontier[i - 1]);
      const int across = dot_x(frontier[i]) - x, down = dot_y(frontier[i]) - y;
      const int dots = std::max({std::abs(across), std::abs(down), 1});
      for (int dot = 0; dot <= dots; dot += 3) canvas_.dot(x + across * dot / dots, y + down * dot / dots);
    }
    for (const ParetoPlotPoint& point : frontier)
      canvas_.mark(static_cast<int>(std::lround(x_of(point.peak))), static_cast<int>(std::lround(y_of(point))),
                   {"◇", ReportTextHighlightKind::dim});
  }

  void put_budget() {
    if (plot_.budget == 0) return;
    const int x = static_cast<int>(std::lround(x_of(plot_.budget)));
    for (int row = 0; row < kRows; ++row) canvas_.fill(x, row, {"┆", ReportTextHighlightKind::bad});
  }

  int dot_x(const ParetoPlotPoint& point) const { return static_cast<int>(std::lround(2 * x_of(point.peak))); }
  int dot_y(const ParetoPlotPoint& point) const { return static_cast<int>(std::lround(4 * y_of(point) + 1.5)); }

  void put_points() {
    for (size_t i = 0; i < plot_.points.size(); ++i) {
      const ParetoPlotPoint& point = plot_.points[i];
      canvas_.mark(static_cast<int>(std::lround(x_of(point.peak))), static_cast<int>(std::lround(y_of(point))),
                   {letter(i), paint_of(*point.row)});
    }
  }

  void put_row(int row) {
    std::string number;
    const AxisTicks ticks = round_ticks(plot_.least_time, plot_.most_time, 6);
    for (double value : ticks.values) {
      if (std::lround(y_of(value)) == row) number = ticks.text(value);
    }
    text_ += pad_left(number, kMargin - 2) + (number.empty() ? " │" : " ┤") + canvas_.line(row, style_.color);
    text_.erase(text_.find_last_not_of(' ') + 1);
    text_ += "\n";
  }

  void put_foot() {
    const AxisTicks ticks = round_ticks(plot_.least_peak, plot_.most_peak, std::max(2, width_ / 10));
    std::string rule, numbers(static_cast<size_t>(width_ + kMargin + 2), ' ');
    for (int x = 0; x < width_; ++x) {
      const auto here = std::find_if(ticks.values.begin(), ticks.values.end(),
                                     [&](double value) { return std::lround(x_of(value)) == x; });
      rule += here == ticks.values.end() ? "─" : "┴";
      if (here == ticks.values.end()) continue;
      const std::string number = ticks.text(*here);
      const size_t start =
          std::min(numbers.size() - number.size(), static_cast<size_t>(kMargin + x) - number.size() / 2);
      numbers.replace(start, number.size(), number);
    }
    text_ += std::string(kMargin - 1, ' ') + "└" + rule + "\n";
    text_ += numbers.substr(0, numbers.find_last_not_of(' ') + 1) + "\n";
    text_ += pad_left(std::string("peak ") + plot_.unit.name, kMargin + width_) + "\n";
  }

  void put_key() {
    constexpr int kFigures = 32;  // width of a line without the name
    int names = 0;
    for (const ParetoPlotPoint& point : plot_.points) names = std::max(names, display_width(label(*point.row)));
    names = std::min(names, std::clamp(style_.width, kMinWidth, kMaxWidth) - kFigures);
    for (size_t i = 0; i < plot_.points.size(); ++i) {
      const ParetoPlotPoint& point = plot_.points[i];
      const std::string mark = point.row->recommended ? "*" : point.row->pareto ? "•" : " ";
      const std::string name = pad_right(shorten(label(*point.row), names), names);
      text_ += " " + mark + " " + painted(letter(i) + "  " + name, paint_of(*point.row), style_.color) +
               pad_left(fixed(point.time, plot_.time_digits), 9) + " " + plot_.time_unit +
               pad_left(fixed(point.peak, 2), 8) + " " + plot_.unit.name + (point.beyond ? " ↑" : "") + "\n";
    }
    const auto beyond = [](const ParetoPlotPoint& point) { return point.beyond; };
    if (std::any_of(plot_.points.begin(), plot_.points.end(), beyond)) text_ += " ↑ slower than the plot is high\n";
    if (plot_.budget > 0)
      text_ += " " + painted("┆", ReportTextHighlightKind::bad, style_.color) + " the budget, " +
               fixed(plot_.budget, 2) + " " + plot_.unit.name + "\n";
    if (!plot_.frontiers.empty()) text_ += " ◇ the best plans for other budgets, predicted\n";
  }

  const ParetoPlot& plot_;
  TerminalCapabilities style_;
  int width_;
  Canvas canvas_;
  std::string text_;
};

}  // namespace

std::string pareto_plot(const Report& any, TerminalCapabilities style) {
  const Report report = printable(any);
  const result::ParetoPlot plot = result::pareto_plot_of(report.rows, report.budget_bytes, report.frontiers);
  if (plot.points.empty()) return " no trial worked\n";
  std::string text = Plot(plot, style).print();
  const std::vector<std::string> marks = legend(report);
  if (!marks.empty()) text += "\n";
  for (const std::string& line : wrap(join(marks, "; "), std::clamp(style.width, kMinWidth, kMaxWidth) - 1))
    text += " " + line + "\n";
  return text;
}

}  // namespace memtune::report
