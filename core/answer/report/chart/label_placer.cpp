#include "core/answer/report/chart/label_placer.h"

#include <algorithm>

namespace memtune::report {
namespace {

constexpr double kTextHeight = 14, kDot = 7;

// Places around a point, nearest first: right, left, above, below, then corners at growing distance.
std::vector<LabelPosition> candidates(Point point, double width) {
  std::vector<LabelPosition> places;
  const auto add = [&](double left, double middle, bool needs_leader_line) {
    const LabelBox box{left, middle - kTextHeight / 2, left + width, middle + kTextHeight / 2};
    places.push_back({{left, middle + 4}, box, needs_leader_line});
  };
  const double right = point.x + kDot + 4, left = point.x - kDot - 4 - width;
  add(right, point.y, false);
  add(left, point.y, false);
  add(point.x - width / 2, point.y - kDot - kTextHeight / 2 - 2, false);
  add(point.x - width / 2, point.y + kDot + kTextHeight / 2 + 2, false);
  for (int ring = 1; ring <= 5; ++ring) {
    const double down = ring * kTextHeight;
    for (double y : {point.y - down, point.y + down}) {
      add(right + ring * 4, y, ring > 1);
      add(left - ring * 4, y, ring > 1);
    }
  }
  return places;
}

}  // namespace

LabelPlacer::LabelPlacer(LabelBox room, std::span<const Point> points, std::span<const std::vector<Point>> lines)
    : room_(room) {
  for (const Point& point : points) taken_.push_back({point.x - kDot, point.y - kDot, point.x + kDot, point.y + kDot});
  for (const std::vector<Point>& line : lines) {
    for (size_t i = 1; i < line.size(); ++i) {
      const auto [left, right] = std::minmax(line[i - 1].x, line[i].x);
      const auto [top, bottom] = std::minmax(line[i - 1].y, line[i].y);
      lines_.push_back({left - 1, top - 1, right + 1, bottom + 1});
    }
  }
}

bool LabelPlacer::is_free(const LabelBox& box) const {
  const bool inside =
      box.left >= room_.left && box.right <= room_.right && box.top >= room_.top && box.bottom <= room_.bottom;
  return inside &&
         std::none_of(taken_.begin(), taken_.end(), [&](const LabelBox& other) { return box.overlaps(other); });
}

bool LabelPlacer::crosses_line(const LabelBox& box) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const LabelBox& line) { return box.overlaps(line); });
}

std::optional<LabelPosition> LabelPlacer::take(Point point, double width) {
  std::optional<LabelPosition> found;
  for (const LabelPosition& place : candidates(point, width)) {
    if (!is_free(place.box)) continue;
    const bool clear = !crosses_line(place.box);
    if (!found || clear) found = place;
    if (clear) break;
  }
  if (found) taken_.push_back(found->box);
  return found;
}

}  // namespace memtune::report
