#include "gui/model/format.h"

#include <algorithm>
#include <cmath>

#include "core/base/layout.h"

namespace memtune::gui {
namespace {

struct Unit {
  double ns;
  const char* name;
};
constexpr Unit kUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "\u00b5s"}, {1, "ns"}};

int digits_for(double value) { return value >= 100 ? 0 : value >= 10 ? 1 : 2; }

}  // namespace

std::string format_time(double ns, double resolution_ns) {
  const double length = std::abs(ns);
  const Unit* unit = std::find_if(std::begin(kUnits), std::end(kUnits) - 1,
                                  [&](const Unit& candidate) { return length >= candidate.ns; });
  int digits = unit->ns == 1 ? 0 : digits_for(length / unit->ns);
  if (resolution_ns > 0) digits = std::clamp(static_cast<int>(std::ceil(std::log10(unit->ns / resolution_ns))), 0, 9);
  return fixed(ns / unit->ns, digits) + " " + unit->name;
}

std::string format_rate(int64_t bytes, int64_t ns) {
  if (bytes <= 0 || ns <= 0) return "";
  const double rate = static_cast<double>(bytes) / static_cast<double>(ns);  // bytes per nanosecond are GB/s
  return fixed(rate, digits_for(rate)) + " GB/s";
}

std::string format_count(size_t count) {
  std::string text = std::to_string(count);
  for (auto i = static_cast<int64_t>(text.size()) - 3; i > 0; i -= 3) text.insert(static_cast<size_t>(i), " ");
  return text;
}

}  // namespace memtune::gui
