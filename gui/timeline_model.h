#pragma once

#include "core/trace/event.h"
#include "core/trace/interval.h"

namespace memtune::gui {

struct TimelineModel {
  trace::Interval whole{0, 1};
};
TimelineModel make_timeline(const trace::Trace& trace);

}  // namespace memtune::gui
