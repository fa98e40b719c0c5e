#include "core/result/row.h"

namespace memtune::result {

bool worked(const Row& row) { return row.measurement.outcome == Outcome::ok; }

int64_t peak(const Row& row) { return row.measurement.peak_bytes.allocated; }

bool same_axes(const Row& a, const Row& b) { return a.batch == b.batch && a.sequence == b.sequence; }

bool same_trial(const Row& a, const Row& b) {
  return a.measurement.strategy == b.measurement.strategy && same_axes(a, b);
}

std::string label(const std::string& strategy, std::optional<int64_t> batch, std::optional<int64_t> sequence) {
  std::string text = strategy;
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';  // a terminal would obey
  if (batch) text += ", batch " + std::to_string(*batch);
  if (sequence) text += ", seq " + std::to_string(*sequence);
  return text;
}

std::string label(const Row& row) { return label(row.measurement.strategy, row.batch, row.sequence); }

std::vector<const Row*> pointers_to(std::span<const Row> rows) {
  std::vector<const Row*> pointers;
  for (const Row& row : rows) pointers.push_back(&row);
  return pointers;
}

}  // namespace memtune::result
