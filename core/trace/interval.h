// Sets of half-open time intervals: the algebra behind "hidden" and "exposed".
#pragma once

#include <cstdint>
#include <vector>

namespace memtune::trace {

struct Interval {
  int64_t start = 0, end = 0;  // [start, end), empty when end <= start
};
using Intervals = std::vector<Interval>;  // sorted, disjoint, non-empty: what unite() returns

Intervals unite(std::vector<Interval> any);  // any order, may overlap
Intervals intersect(const Intervals& a, const Intervals& b);
Intervals subtract(const Intervals& a, const Intervals& b);  // what of `a` is not in `b`
int64_t total(const Intervals& a);

}  // namespace memtune::trace
