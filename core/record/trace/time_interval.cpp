#include "core/record/trace/time_interval.h"

#include <algorithm>

namespace memtune::trace {

Intervals unite(std::vector<TimeInterval> any) {
  std::sort(any.begin(), any.end(), [](const TimeInterval& a, const TimeInterval& b) { return a.start < b.start; });
  Intervals united;
  for (const TimeInterval& next : any) {
    if (next.end <= next.start) continue;
    if (!united.empty() && next.start <= united.back().end) {
      united.back().end = std::max(united.back().end, next.end);
    } else {
      united.push_back(next);
    }
  }
  return united;
}

Intervals intersect(const Intervals& a, const Intervals& b) {
  Intervals common;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const TimeInterval both{std::max(a[i].start, b[j].start), std::min(a[i].end, b[j].end)};
    if (both.start < both.end) common.push_back(both);
    (a[i].end < b[j].end ? i : j)++;
  }
  return common;
}

Intervals subtract(const Intervals& a, const Intervals& b) {
  Intervals left;
  size_t j = 0;
  for (TimeInterval rest : a) {
    while (j < b.size() && b[j].end <= rest.start) ++j;
    for (size_t k = j; k < b.size() && b[k].start < rest.end; ++k) {
      if (rest.start < b[k].start) left.push_back({rest.start, b[k].start});
      rest.start = b[k].end;
    }
    if (rest.start < rest.end) left.push_back(rest);
  }
  return left;
}

int64_t total(const Intervals& a) {
  int64_t sum = 0;
  for (const TimeInterval& interval : a) sum += interval.end - interval.start;
  return sum;
}

}  // namespace memtune::trace
