#include "gui/timeline_model.h"

#include <algorithm>

namespace memtune::gui {

TimelineModel make_timeline(const trace::Trace& trace) {
  TimelineModel model;
  for (const trace::Event& event : trace.events) model.whole.end = std::max(model.whole.end, event.end_ns);
  return model;
}

}  // namespace memtune::gui
