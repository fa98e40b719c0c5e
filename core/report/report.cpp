#include "core/report/report.h"

#include <algorithm>

namespace memtune::report {

using result::Row;

const Row* reference_row(const Report& report, const Row& row) {
  const auto found = std::ranges::find_if(report.rows, [&](const Row& other) {
    return worked(other) && other.measurement.strategy == report.reference && same_axes(other, row);
  });
  return found == report.rows.end() ? nullptr : &*found;
}

}  // namespace memtune::report
