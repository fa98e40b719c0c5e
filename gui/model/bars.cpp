#include "gui/model/bars.h"

#include <algorithm>
#include <cmath>

namespace memtune::gui {
namespace {

constexpr double kBarPixels = 2;  // spans within this width share one bar
constexpr double kShades = 10;    // bars that are busy to the same tenth are merged

double shade(double busy) { return std::ceil(std::clamp(busy, 0.0, 1.0) * kShades) / kShades; }

Bar collapsed(const SpanRow& row, size_t first, size_t end, double bar_ns) {
  const auto busy = static_cast<double>(row.busy_before_ns[end] - row.busy_before_ns[first]);
  const int64_t bar_end = row.starts_ns[first] + static_cast<int64_t>(bar_ns);
  return {row.starts_ns[first], std::max(row.ends_ns[end - 1], bar_end), first, end - first, shade(busy / bar_ns)};
}

void add(std::vector<Bar>& bars, const Bar& bar, double bar_ns) {
  const bool melts = !bars.empty() && bar.count > 1 && bars.back().count > 1 && bars.back().busy == bar.busy &&
                     static_cast<double>(bar.start_ns - bars.back().end_ns) < bar_ns / 2;
  if (!melts) {
    bars.push_back(bar);
    return;
  }
  bars.back().end_ns = bar.end_ns;
  bars.back().count += bar.count;
}

}  // namespace

std::vector<Bar> visible_bars(const SpanRow& row, double start_ns, double end_ns, double ns_per_pixel) {
  std::vector<Bar> bars;
  const double bar_ns = kBarPixels * ns_per_pixel;
  const auto width = [&](size_t i) { return static_cast<double>(row.ends_ns[i] - row.starts_ns[i]); };
  const auto visible = std::lower_bound(row.ends_ns.begin(), row.ends_ns.end(), static_cast<int64_t>(start_ns));
  auto i = static_cast<size_t>(visible - row.ends_ns.begin());
  while (i < row.events.size() && static_cast<double>(row.starts_ns[i]) < end_ns) {
    const double limit = static_cast<double>(row.starts_ns[i]) + bar_ns;
    const auto beyond = std::lower_bound(row.starts_ns.begin() + static_cast<int64_t>(i) + 1, row.starts_ns.end(),
                                         static_cast<int64_t>(std::ceil(limit)));
    auto end = static_cast<size_t>(beyond - row.starts_ns.begin());
    if (end - i > 1 && width(end - 1) >= ns_per_pixel) --end;  // wide enough to be visible alone
    if (end - i == 1 || width(i) >= ns_per_pixel) {
      bars.push_back({row.starts_ns[i], row.ends_ns[i], i, 1, 1});
      ++i;
    } else {
      add(bars, collapsed(row, i, end, bar_ns), bar_ns);
      i = end;
    }
  }
  return bars;
}

}  // namespace memtune::gui
