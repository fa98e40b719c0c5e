#include "core/plan/planner/activation_recompute_time_lower_bounds.h"

#include <algorithm>
#include <utility>

#include "core/record/trace/private_save.h"

namespace memtune::planner {
namespace {

using plan::RecordedStepCosts;

double bytes_of(const RecordedStepSimulationTables::Value& value) { return static_cast<double>(value.held_bytes); }

bool is_cast(const RecordedStepSimulationTables::Value& value) {
  return value.output == kPrivateSave && value.cast_of != RecordedStepCosts::kNoCast;
}

double ratio(const RecomputeCostCurveSegment& piece) { return piece.ms / piece.bytes; }

constexpr size_t kMaxPieces = 64;  // of a value; without a limit, sums over inputs keep growing

// Sorts by ms per byte. If there are too many, pairs are merged at the lower price, which never exceeds their time.
void sort_few(std::vector<RecomputeCostCurveSegment>& pieces) {
  std::ranges::sort(pieces, {}, ratio);
  while (pieces.size() > kMaxPieces) {
    for (size_t i = 0; i + 1 < pieces.size(); i += 2) {
      const RecomputeCostCurveSegment &cheap = pieces[i], &dear = pieces[i + 1];
      pieces[i / 2] = {cheap.bytes + dear.bytes, cheap.ms + dear.bytes * ratio(cheap)};
    }
    if (pieces.size() % 2 == 1) pieces[pieces.size() / 2] = pieces.back();
    pieces.resize((pieces.size() + 1) / 2);
  }
}

}  // namespace

ActivationRecomputeTimeLowerBounds::ActivationRecomputeTimeLowerBounds(const RecordedStepSimulationTables& tables,
                                                                       std::vector<char> wanted)
    : tables_(tables),
      wanted_(std::move(wanted)),
      made_bytes_(tables.runs.size()),
      readers_(tables.values.size()),
      last_(tables.values.size(), -1) {
  for (const RecordedStepSimulationTables::Value& value : tables.values) {
    if (value.run >= 0 && !is_cast(value)) made_bytes_[value.run] += bytes_of(value);
    if (is_cast(value) && value.cast_of >= 0) ++readers_[value.cast_of], last_[value.cast_of] = value.run;
  }
  for (int run = 0; run < static_cast<int>(tables.runs.size()); ++run)
    for (const int value : tables.reads[run]) ++readers_[value], last_[value] = std::max(last_[value], run);
  for (const RecordedStepSimulationTables::Value& value : tables.values)
    known_.push_back(find(value));  // inputs come first
}

bool ActivationRecomputeTimeLowerBounds::can_rerun(const RecordedStepSimulationTables::Value& value) const {
  return !value.outside &&
         (is_cast(value) || (!tables_.runs[value.run].writes_outside && !tables_.runs[value.run].on_host));
}

// The share of the value in the time of its op.
double ActivationRecomputeTimeLowerBounds::own_ms(const RecordedStepSimulationTables::Value& value) const {
  if (is_cast(value))
    return tables_.cast_bytes_per_ms > 0 ? 2 * static_cast<double>(value.bytes) / tables_.cast_bytes_per_ms : 0;
  const double made = made_bytes_[value.run];
  return made > 0 ? tables_.runs[value.run].ms * bytes_of(value) / made : 0;
}

std::vector<int> ActivationRecomputeTimeLowerBounds::unkept_inputs(
    const RecordedStepSimulationTables::Value& value) const {
  std::vector<int> inputs;
  const auto add = [&](int input) {
    const RecordedStepSimulationTables::Value& entry = tables_.values[input];
    if (!wanted_[input] && !entry.outside && entry.held_bytes > 0 && input < value.number) inputs.push_back(input);
  };
  if (!is_cast(value))
    for (const int input : tables_.reads[value.run]) add(input);
  else if (value.cast_of >= 0)
    add(value.cast_of);
  return inputs;
}

// The bytes of an input that has to stay for the recomputation are not freed, unless it is recomputed too.
ActivationRecomputeTimeLowerBounds::Known ActivationRecomputeTimeLowerBounds::find(
    const RecordedStepSimulationTables::Value& value) const {
  Known known;
  known.largest_bytes = value.bytes;
  if (!can_rerun(value) || value.held_bytes == 0) return known;
  double inputs_bytes = 0;
  for (const int input : unkept_inputs(value)) {
    const Known& of_input = known_[input];
    known.last_read = std::max({known.last_read, last_[input], of_input.last_read});
    known.largest_bytes = std::max(known.largest_bytes, of_input.largest_bytes);
    const double part = 1.0 / std::max(1, readers_[input]);
    inputs_bytes += part * bytes_of(tables_.values[input]);
    for (const RecomputeCostCurveSegment& piece : of_input.pieces)
      known.pieces.push_back({part * piece.bytes, part * piece.ms});
  }
  const double own_bytes = bytes_of(value) - inputs_bytes, ms = own_ms(value);
  if (own_bytes > 0) {
    known.pieces.push_back({own_bytes, ms});
    sort_few(known.pieces);
    return known;
  }
  sort_few(known.pieces);
  double left = bytes_of(value);
  size_t used = 0;
  for (; used < known.pieces.size() && left > 0; ++used) {
    RecomputeCostCurveSegment& piece = known.pieces[used];
    const double share = std::min(1.0, left / piece.bytes), taken = share * piece.bytes;
    left -= taken;
    piece = {taken, share * piece.ms + ms * taken / bytes_of(value)};
  }
  known.pieces.resize(used);
  return known;
}

}  // namespace memtune::planner
