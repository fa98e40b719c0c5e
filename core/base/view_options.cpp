#include "core/base/view_options.h"

namespace memtune {
namespace {

const ViewCommandOption kOptions[] = {
    {"--screenshot", "FILE", "write a picture, FILE.png, instead of opening a window; needs no display", {}},
    {"--size", "WIDTHxHEIGHT", "of window or picture, in pixels (default: 1600x900, or the last window's)", {}},
    {"--scale", "FACTOR", "of text and all else (default: the display's)", {}},
    {"--theme", "NAME", "dark or light (default: dark)", {"dark", "light"}},
    {"--tab",
     "NAME",
     "timeline, compare, plan or findings (default: timeline)",
     {"timeline", "compare", "plan", "findings"}},
    {"--at", "PLACE", "milliseconds, \"peak\", or a value of the plan, whose trip lights up", {}},
    {"--trial", "NAME", "strategy or number (default: the recommended)", {}},
    {"--trial2", "NAME", "the one it is compared with", {}},
};

}  // namespace

std::span<const ViewCommandOption> view_options() { return kOptions; }

}  // namespace memtune
