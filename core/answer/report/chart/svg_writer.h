// Builds charts as SVG elements inside an HTML page, and computes round axis ticks. CSS classes of the page set light
// and dark colors. Coordinates are pixels, y down.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::report {

// Escapes text for SVG and HTML, in content and in quoted attributes. Invalid UTF-8 becomes U+FFFD, control characters
// become blanks.
std::string escape(std::string_view text);

// Estimated upper bound of the width in pixels, for 12 pixel text in a common sans-serif font.
double text_width(std::string_view text);

struct Point {
  double x = 0, y = 0;
};

enum class TextAnchor { start, middle, end };

// `style` is one or more CSS classes. The browser shows `tip` when the pointer is over the element.
class SvgWriter {
 public:
  SvgWriter(int width, int height, std::string_view title);  // screen readers read the title

  void line(Point from, Point to, std::string_view style);
  void path(std::span<const Point> points, std::string_view style);
  void area(std::span<const Point> outline, std::string_view style, std::string_view tip = "");
  void bar(Point corner, double width, double height, std::string_view style, std::string_view tip = "");
  void dot(Point center, double radius, std::string_view style, std::string_view tip = "");
  void text(Point at, std::string_view text, TextAnchor anchor = TextAnchor::start, std::string_view style = "");
  std::string finish() &&;

 private:
  void shape(const std::string& element, std::string_view style, std::string_view tip);
  std::string text_;
};

// Maps a value in [low, high] linearly to pixels.
struct AxisScale {
  double low = 0, high = 1;
  double from = 0, to = 1;
  double operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Multiples of 1, 2 or 5 times a power of ten within [low, high], `most` of them at most.
struct AxisTicks {
  double step = 1;
  std::vector<double> values;
  std::string text(double value) const;  // with as many digits as the step needs
};
AxisTicks round_ticks(double low, double high, int most);

}  // namespace memtune::report
