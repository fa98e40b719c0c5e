// What part of a trace is looked at and what of it is picked out. Pure arithmetic on times; pixels come in as
// fractions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/interval.h"

namespace memtune::gui {

struct ViewState {
  double start_ns = 0, end_ns = 1;      // what is visible
  trace::Interval whole{0, 1};          // what there is
  std::optional<size_t> event;          // index into Trace::events
  trace::ValueId value;                 // of it, or looked for
  std::vector<int64_t> marks;           // times, at most two
  double cursor_ns = 0;                 // under the mouse, or the middle
  std::optional<int64_t> memory_at_ns;  // whose memory is told; not set: the cursor's or the peak's
  float scroll = 0;                     // of the lanes, in pixels
  std::set<int32_t> folded;             // ranks of which one lane is shown

  double span_ns() const { return end_ns - start_ns; }
  void reset(trace::Interval all);
  void zoom(double factor, double at);  // factor > 1 magnifies; `at`: the fraction of the width that stays in place
  void pan(double fraction);            // of what is visible
  void fit(trace::Interval range);      // with a margin
  void fit_all();
  void centre(int64_t time_ns);
  void mark(int64_t time_ns);  // a third begins anew
  void clear_selection();
  void fold_or_unfold(int32_t rank);

 private:
  void clamp();
};

}  // namespace memtune::gui
