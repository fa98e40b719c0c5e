#include "core/report/report.h"

#include <algorithm>

namespace memtune::report {

std::vector<const Row*> ranked(const Report& report) {
  std::vector<const Row*> rows;
  for (const Row& row : report.rows) rows.push_back(&row);
  auto differs = [&](const Row* row) {
    return row->batch != rows.front()->batch || row->sequence != rows.front()->sequence;
  };
  bool by_throughput = std::any_of(rows.begin(), rows.end(), differs);
  std::stable_sort(rows.begin(), rows.end(), [&](const Row* a, const Row* b) {
    bool a_worked = a->measurement.outcome == result::Outcome::ok,
         b_worked = b->measurement.outcome == result::Outcome::ok;
    if (a_worked != b_worked) return a_worked;
    if (!a_worked) return false;
    if (by_throughput) return a->measurement.samples_per_s > b->measurement.samples_per_s;
    return a->measurement.step_ms.median < b->measurement.step_ms.median;
  });
  return rows;
}

const Row* reference_row(const Report& report, const Row& row) {
  for (const Row& other : report.rows) {
    const result::Measurement& measurement = other.measurement;
    if (measurement.strategy == report.reference && measurement.outcome == result::Outcome::ok &&
        other.batch == row.batch && other.sequence == row.sequence) {
      return &other;
    }
  }
  return nullptr;
}

}  // namespace memtune::report
