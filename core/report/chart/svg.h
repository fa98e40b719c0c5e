// Charts as SVG elements inside an HTML page, whose style gives the classes their colors in light and dark; and round
// ticks for their axes. Coordinates are pixels of the chart, y down.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::report {

// For SVG and HTML, in text and in quotes: what means something there is replaced, bytes that are no UTF-8 become
// U+FFFD, control characters blanks.
std::string escape(std::string_view text);

// Pixels that 12 pixel text of a common sans-serif takes at most, roughly.
double text_width(std::string_view text);

struct Point {
  double x = 0, y = 0;
};

enum class Anchor { start, middle, end };

// `style` is a class or several. A `tip` is shown by the browser when the pointer rests on the element.
class Svg {
 public:
  Svg(int width, int height, std::string_view title);  // the title is for those who cannot see it

  void line(Point from, Point to, std::string_view style);
  void path(std::span<const Point> points, std::string_view style);
  void area(std::span<const Point> outline, std::string_view style, std::string_view tip = "");
  void bar(Point corner, double width, double height, std::string_view style, std::string_view tip = "");
  void dot(Point center, double radius, std::string_view style, std::string_view tip = "");
  void text(Point at, std::string_view text, Anchor anchor = Anchor::start, std::string_view style = "");
  std::string finish() &&;

 private:
  void shape(const std::string& element, std::string_view style, std::string_view tip);
  std::string text_;
};

// Places a value of [low, high] between two pixels.
struct Scale {
  double low = 0, high = 1;
  double from = 0, to = 1;
  double operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Multiples of 1, 2 or 5 times a power of ten, at most `most` of them, within [low, high].
struct Ticks {
  double step = 1;
  std::vector<double> values;
  std::string text(double value) const;  // with the digits that the step needs
};
Ticks round_ticks(double low, double high, int most);

}  // namespace memtune::report
