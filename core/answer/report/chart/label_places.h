// Places labels next to the points of a scatter plot. No label covers a point or another label.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/answer/report/chart/svg.h"

namespace memtune::report {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct LabelPlace {
  Point baseline;  // where the text begins
  Box box;
  bool away = false;  // far from its point: draw a line that joins them
};

class LabelPlaces {
 public:
  // Labels stay inside `room` and off `points`. If possible they also avoid `lines`, whose segments are horizontal or
  // vertical.
  LabelPlaces(Box room, std::span<const Point> points, std::span<const std::vector<Point>> lines);

  // Returns and reserves the nearest free place for a label of `width` pixels; none if there is no free place.
  std::optional<LabelPlace> take(Point point, double width);

 private:
  bool is_free(const Box& box) const;
  bool crosses_line(const Box& box) const;

  Box room_;
  std::vector<Box> taken_, lines_;
};

}  // namespace memtune::report
