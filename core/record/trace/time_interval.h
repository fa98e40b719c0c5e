// Sets of half-open time intervals, for overlapped and exposed copy time.
#pragma once

#include <cstdint>
#include <vector>

namespace memtune::trace {

struct TimeInterval {
  int64_t start = 0, end = 0;  // [start, end); empty if end <= start
};
using Intervals = std::vector<TimeInterval>;  // sorted, disjoint, non-empty; unite() creates them

Intervals unite(std::vector<TimeInterval> any);  // in any order, may overlap
Intervals intersect(const Intervals& a, const Intervals& b);
Intervals subtract(const Intervals& a, const Intervals& b);  // the part of `a` outside of `b`
int64_t total(const Intervals& a);

}  // namespace memtune::trace
