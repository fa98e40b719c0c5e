// Zooming and moving never lose the trace. Zooming keeps the time under the mouse.
#include "gui/model/view_state.h"

#include <doctest/doctest.h>

namespace memtune::view_state_test {

using memtune::gui::ViewState;

namespace {

ViewState view_of(int64_t start, int64_t end) {
  ViewState view;
  view.reset({start, end});
  return view;
}

}  // namespace

TEST_CASE("a new view shows the whole trace with a margin") {
  const ViewState view = view_of(1000, 2000);
  CHECK(view.start_ns == doctest::Approx(960));
  CHECK(view.end_ns == doctest::Approx(2040));
}

TEST_CASE("zooming keeps the time under the mouse in place") {
  ViewState view = view_of(0, 1'000'000);
  const double at = 0.25, time = view.start_ns + view.span_ns() * at;
  view.zoom(8, at);
  CHECK(view.start_ns + view.span_ns() * at == doctest::Approx(time));
  CHECK(view.span_ns() == doctest::Approx(1.08e6 / 8));
}

TEST_CASE("zooming is limited to ten nanoseconds and slightly more than the whole trace") {
  ViewState view = view_of(0, 1'000'000);
  view.zoom(1e30, 0.5);
  CHECK(view.span_ns() == doctest::Approx(10));
  view.zoom(1e-30, 0.5);
  CHECK(view.span_ns() == doctest::Approx(1.2e6));
}

TEST_CASE("moving stops when the middle of the view reaches an end of the trace") {
  ViewState view = view_of(0, 1'000'000);
  view.zoom(10, 0.5);
  view.pan(1e9);
  CHECK((view.start_ns + view.end_ns) / 2 == doctest::Approx(1'000'000));
  view.pan(-1e9);
  CHECK((view.start_ns + view.end_ns) / 2 == doctest::Approx(0));
}

TEST_CASE("a moment without length can be fitted") {
  ViewState view = view_of(0, 1'000'000);
  view.fit({500, 500});
  CHECK(view.span_ns() > 0);
  CHECK(view.start_ns < 500);
  CHECK(view.end_ns > 500);
}

TEST_CASE("a third mark starts a new measurement") {
  ViewState view = view_of(0, 100);
  for (const int64_t time : {1, 2, 3}) view.mark(time);
  CHECK(view.marks == std::vector<int64_t>{3});
}

TEST_CASE("a trace without length is shown with some length") { CHECK(view_of(5, 5).span_ns() > 0); }

}  // namespace memtune::view_state_test
