// Places labels next to the points of a scatter plot. No label covers a point or another label.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/answer/report/chart/svg_writer.h"

namespace memtune::report {

struct LabelBox {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool overlaps(const LabelBox& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct LabelPosition {
  Point baseline;  // where the text begins
  LabelBox box;
  bool needs_leader_line = false;  // far from its point: draw a line that joins them
};

class LabelPlacer {
 public:
  // Labels stay inside `room` and off `points`. If possible they also avoid `lines`, whose segments are horizontal or
  // vertical.
  LabelPlacer(LabelBox room, std::span<const Point> points, std::span<const std::vector<Point>> lines);

  // Returns and reserves the nearest free place for a label of `width` pixels; none if there is no free place.
  std::optional<LabelPosition> take(Point point, double width);

 private:
  bool is_free(const LabelBox& box) const;
  bool crosses_line(const LabelBox& box) const;

  LabelBox room_;
  std::vector<LabelBox> taken_, lines_;
};

}  // namespace memtune::report
