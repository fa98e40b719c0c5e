#include "core/answer/report/chart/svg_writer.h"

#include <algorithm>
#include <cmath>

#include "core/base/layout.h"
#include "core/base/utf8.h"

namespace memtune::report {
namespace {

std::string number(double value) {
  std::string text = fixed(value, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string attribute(const char* name, double value) { return std::string(" ") + name + "=\"" + number(value) + "\""; }

std::string points_of(std::span<const Point> points) {
  std::string text = " points=\"";
  for (const Point& point : points) text += number(point.x) + "," + number(point.y) + " ";
  return text + "\"";
}

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : memtune::printable(text)) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c == '\n' ? ' ' : c;
    }
  }
  return result;
}

double text_width(std::string_view text) { return 6.8 * display_width(text); }

SvgWriter::SvgWriter(int width, int height, std::string_view title) {
  text_ = "<svg viewBox=\"0 0 " + std::to_string(width) + " " + std::to_string(height) +
          "\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">\n<title>" + escape(title) + "</title>\n";
}

void SvgWriter::shape(const std::string& element, std::string_view style, std::string_view tip) {
  const std::string name = element.substr(0, element.find(' '));
  text_ += "<" + element + " class=\"" + std::string(style) + "\"";
  text_ += tip.empty() ? "/>\n" : "><title>" + escape(tip) + "</title></" + name + ">\n";
}

void SvgWriter::line(Point from, Point to, std::string_view style) {
  shape("line" + attribute("x1", from.x) + attribute("y1", from.y) + attribute("x2", to.x) + attribute("y2", to.y),
        style, "");
}

void SvgWriter::path(std::span<const Point> points, std::string_view style) {
  shape("polyline" + points_of(points), style, "");
}

void SvgWriter::area(std::span<const Point> outline, std::string_view style, std::string_view tip) {
  shape("polygon" + points_of(outline), style, tip);
}

void SvgWriter::bar(Point corner, double width, double height, std::string_view style, std::string_view tip) {
  shape("rect" + attribute("x", corner.x) + attribute("y", corner.y) + attribute("width", std::max(width, 0.0)) +
            attribute("height", height),
        style, tip);
}

void SvgWriter::dot(Point center, double radius, std::string_view style, std::string_view tip) {
  shape("circle" + attribute("cx", center.x) + attribute("cy", center.y) + attribute("r", radius), style, tip);
}

void SvgWriter::text(Point at, std::string_view text, TextAnchor anchor, std::string_view style) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  text_ += "<text" + attribute("x", at.x) + attribute("y", at.y) + " text-anchor=\"" +
           kAnchors[static_cast<int>(anchor)] + "\" class=\"" + std::string(style) + "\">" + escape(text) + "</text>\n";
}

std::string SvgWriter::finish() && { return std::move(text_) + "</svg>\n"; }

std::string AxisTicks::text(double value) const {
  const int digits = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 9);
  return fixed(value == 0 ? 0 : value, digits);
}

AxisTicks round_ticks(double low, double high, int most) {
  if (!(high > low)) high = low + std::max(1.0, std::abs(low));
  const double least_step = (high - low) / std::max(1, most - 1);
  double step = std::pow(10, std::floor(std::log10(least_step)));
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor < least_step * (1 - 1e-9)) continue;
    step *= factor;
    break;
  }
  AxisTicks ticks{step, {}};
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) ticks.values.push_back(i * step);
  return ticks;
}

}  // namespace memtune::report
