// The visible part of a trace and the selection in it. Works only on times; positions in pixels are passed as
// fractions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/record/trace/time_interval.h"
#include "core/record/trace/trace_event.h"

namespace memtune::gui {

struct ViewState {
  double start_ns = 0, end_ns = 1;      // visible
  trace::TimeInterval whole{0, 1};      // the whole trace
  std::optional<size_t> event;          // index into Trace::events
  trace::ValueId value;                 // of `event`, or found by a search
  std::vector<int64_t> marks;           // times, at most two
  double cursor_ns = 0;                 // under the mouse, or the middle
  std::optional<int64_t> memory_at_ns;  // whose memory is shown; not set: at the cursor or the peak
  float scroll = 0;                     // of the lanes, in pixels
  std::set<int32_t> folded;             // ranks shown as one lane

  double span_ns() const { return end_ns - start_ns; }
  void reset(trace::TimeInterval all);
  void zoom(double factor, double at);  // factor > 1 magnifies; `at`: fraction of the width that stays in place
  void pan(double fraction);            // of the visible part
  void fit(trace::TimeInterval range);  // with a margin
  void fit_all();
  void centre(int64_t time_ns);
  void mark(int64_t time_ns);  // a third mark removes the other two
  void clear_selection();
  void fold_or_unfold(int32_t rank);

 private:
  void clamp();
};

}  // namespace memtune::gui
