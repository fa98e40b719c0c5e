// Labels must not cover points or each other.
#include "core/answer/report/chart/label_placer.h"

#include <doctest/doctest.h>

namespace memtune::label_placer_test {

using namespace memtune::report;

namespace {

constexpr LabelBox kRoom{0, 0, 400, 300};

}  // namespace

TEST_CASE("a label stands to the right of its point if there is room") {
  const std::vector<Point> points = {{100, 100}};
  const auto place = LabelPlacer(kRoom, points, {}).take(points[0], 50);
  REQUIRE(place);
  CHECK(place->box.left > 100);
  CHECK(place->box.top < 100);
  CHECK(place->box.bottom > 100);
  CHECK_FALSE(place->needs_leader_line);
}

TEST_CASE("a label at the right edge stands to the left of its point") {
  const std::vector<Point> points = {{390, 100}};
  CHECK(LabelPlacer(kRoom, points, {}).take(points[0], 50)->box.right < 390);
}

TEST_CASE("labels of crowded points overlap neither points nor each other and stay inside") {
  std::vector<Point> points;
  for (int i = 0; i < 12; ++i) points.push_back({100.0 + 7 * i, 100.0 + (i * 5) % 17});
  LabelPlacer places(kRoom, points, {});
  std::vector<LabelBox> boxes;
  for (const Point& point : points) {
    if (const auto place = places.take(point, 60)) boxes.push_back(place->box);
  }
  CHECK(boxes.size() >= 6);
  for (size_t i = 0; i < boxes.size(); ++i) {
    CHECK(boxes[i].left >= kRoom.left);
    CHECK(boxes[i].right <= kRoom.right);
    for (size_t j = 0; j < i; ++j) CHECK_FALSE(boxes[i].overlaps(boxes[j]));
    for (const Point& point : points)
      CHECK_FALSE(boxes[i].overlaps({point.x - 4, point.y - 4, point.x + 4, point.y + 4}));
  }
}

TEST_CASE("a label avoids lines if possible and otherwise crosses one") {
  const std::vector<Point> points = {{100, 100}};
  const std::vector<std::vector<Point>> right = {{{100, 100}, {300, 100}}};
  CHECK(LabelPlacer(kRoom, points, right).take(points[0], 50)->box.right < 100);
  std::vector<std::vector<Point>> everywhere;
  for (int x = 0; x < 400; x += 10) everywhere.push_back({{double(x), 0}, {double(x), 300}});
  CHECK(LabelPlacer(kRoom, points, everywhere).take(points[0], 50));
}

TEST_CASE("a label without room is not placed") {
  const std::vector<Point> points = {{10, 10}};
  CHECK_FALSE(LabelPlacer({0, 0, 20, 20}, points, {}).take(points[0], 50));
}

}  // namespace memtune::label_placer_test
