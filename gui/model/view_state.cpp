#include "gui/model/view_state.h"

#include <algorithm>

namespace memtune::gui {
namespace {

constexpr double kMinSpan = 10;   // nanoseconds: the closest zoom
constexpr double kMargin = 0.04;  // on each side of the fitted range, as a share of the width

}  // namespace

void ViewState::reset(trace::TimeInterval all) {
  *this = ViewState();
  whole = {all.start, std::max(all.end, all.start + 1)};
  fit_all();
}

void ViewState::zoom(double factor, double at) {
  const double still = start_ns + span_ns() * at;
  const double least = kMinSpan, most = 1.2 * static_cast<double>(whole.end - whole.start);
  const double span = std::clamp(span_ns() / factor, std::min(least, most), most);
  start_ns = still - span * at;
  end_ns = start_ns + span;
  clamp();
}

void ViewState::pan(double fraction) {
  const double by = span_ns() * fraction;
  start_ns += by;
  end_ns += by;
  clamp();
}

void ViewState::fit(trace::TimeInterval range) {
  const double length = std::max(static_cast<double>(range.end - range.start), kMinSpan);
  start_ns = static_cast<double>(range.start) - kMargin * length;
  end_ns = static_cast<double>(range.start) + (1 + kMargin) * length;
}

void ViewState::fit_all() { fit(whole); }

void ViewState::centre(int64_t time_ns) {
  const double half = span_ns() / 2;
  start_ns = static_cast<double>(time_ns) - half;
  end_ns = static_cast<double>(time_ns) + half;
}

void ViewState::mark(int64_t time_ns) {
  if (marks.size() >= 2) marks.clear();
  marks.push_back(time_ns);
}

void ViewState::fold_or_unfold(int32_t rank) {
  if (folded.erase(rank) == 0) folded.insert(rank);
}

void ViewState::clear_selection() {
  event.reset();
  value = {};
}

// Keeps the middle of the view inside the trace, so that the user does not lose it.
void ViewState::clamp() {
  const double middle = (start_ns + end_ns) / 2;
  const double shift = std::clamp(middle, static_cast<double>(whole.start), static_cast<double>(whole.end)) - middle;
  start_ns += shift;
  end_ns += shift;
}

}  // namespace memtune::gui
