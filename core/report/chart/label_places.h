// Finds places for labels beside the points of a scatter so that no label covers a point or another label.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/report/chart/svg.h"

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
  bool away = false;  // so far from its point that a line should join them
};

class LabelPlaces {
 public:
  // Labels stay inside of `room` and off the points; off `lines`, whose pieces run straight across or down, if they
  // can.
  LabelPlaces(Box room, std::span<const Point> points, std::span<const std::vector<Point>> lines);

  // The nearest place for a label of that width that is free, which then is taken; nothing when there is none.
  std::optional<LabelPlace> take(Point point, double width);

 private:
  bool is_free(const Box& box) const;
  bool crosses_line(const Box& box) const;

  Box room_;
  std::vector<Box> taken_, lines_;
};

}  // namespace memtune::report
