#include "core/plan/planner/step_time_lower_bound.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/plan/planner/step_costs_with_waits_for_host.h"

namespace memtune::planner {
namespace {

using plan::RecordedStepCosts;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kNone = -1, kLast = std::numeric_limits<int>::max();
constexpr double kRounding = 1e-9;  // relative

double ms_a_byte(double gb_per_s) { return gb_per_s > 0 ? 1 / (gb_per_s * 1e6) : 0; }

// When the forward itself uses each storage, saved or not.
struct ForwardUse {
  std::vector<int> made, last;  // runs, by storage

  explicit ForwardUse(const RecordedStepSimulationTables& tables)
      : made(tables.storage_bytes.size(), kNone), last(tables.storage_bytes.size(), kNone) {
    const int runs = static_cast<int>(tables.runs.size());
    for (const RecordedStepSimulationTables::Value& value : tables.values) {
      if (value.outside || (made[value.storage] != kNone && made[value.storage] <= value.run)) continue;
      made[value.storage] = value.run;
    }
    for (int run = 0; run < runs; ++run) {
      for (const int storage : tables.last_reads[run]) last[storage] = run;
      for (const int storage : tables.never_read[run]) last[storage] = run;
    }
    for (const RecordedStepSimulationTables::Value& value : tables.values)
      if (value.cached()) last[value.storage] = runs - 1;
  }
};

}  // namespace

StepTimeLowerBound::StepTimeLowerBound(const RecordedStepSimulationTables& tables, const RecordedStepCosts& costs,
                                       const UnmodelledMemory& unmodelled, int64_t offload_min_bytes)
    : step_ms_(costs.step_ms),
      out_ms_(ms_a_byte(costs.out_gb_per_s)),
      in_ms_(ms_a_byte(costs.in_gb_per_s)),
      idle_ms_(tables.idle_ms),
      slowdown_(std::clamp(costs.copy_slowdown, 0.0, 1.0)),
      passes_(costs.passes),
      offload_min_bytes_(offload_min_bytes),
      held_bytes_(costs.runs.size() + costs.moments.size()) {
  find_needs(tables, costs);
  set_entries(tables, costs, unmodelled);
}

bool StepTimeLowerBound::Need::may_be_offloaded(int entry) const {
  return std::ranges::any_of(offloaded, [=](const Span& span) { return span.first <= entry && entry <= span.last; });
}

void StepTimeLowerBound::find_needs(const RecordedStepSimulationTables& tables, const RecordedStepCosts& costs) {
  const int runs = static_cast<int>(costs.runs.size());
  const size_t storages = tables.storage_bytes.size();
  const ForwardUse forward(tables);
  std::vector<std::vector<Span>> there(storages);
  std::vector<int> last_asked(storages, kNone), asked(costs.saved.size(), kNone), value_of(storages, kNone);
  std::vector<char> wanted(tables.values.size()), is_several(storages);
  for (int i = 0; i < static_cast<int>(costs.moments.size()); ++i) {
    const RecordedStepCosts::Moment& moment = costs.moments[i];
    const int value = costs.saved[moment.saved].value, storage = tables.values[value].storage;
    if (moment.kind == RecordedStepCosts::Moment::Kind::unpack) {
      wanted[value] = 1;
      is_several[storage] |= value_of[storage] != kNone && value_of[storage] != value;
      value_of[storage] = value;
      last_asked[storage] = runs + i;
      if (asked[moment.saved] == kNone) asked[moment.saved] = runs + i;
    } else if (asked[moment.saved] != kNone) {
      there[storage].push_back({std::exchange(asked[moment.saved], kNone), runs + i - 1});
    }
  }
  const ActivationRecomputeTimeLowerBounds prices(tables, wanted);
  for (size_t storage = 0; storage < storages; ++storage) {
    const int value = value_of[storage], made = forward.made[storage];
    if (value == kNone || made == kNone) continue;
    const int64_t bytes = std::min(tables.storage_bytes[storage], tables.values[value].held_bytes);
    if (bytes == 0) continue;
    if (forward.last[storage] > made) there[storage].push_back({made + 1, forward.last[storage]});
    add_need({bytes, is_several[storage] || prices.largest_bytes(value) >= offload_min_bytes_, {{made + 1, made}}},
             std::move(there[storage]), last_asked[storage]);
    if (is_several[storage])
      pieces_.push_back({{static_cast<double>(bytes), 0}, static_cast<int>(needs_.size()) - 1, 0, kLast});
    else
      add_pieces(value, prices);
  }
  std::ranges::sort(pieces_, {}, [](const Piece& piece) { return piece.ms / piece.bytes; });
}

// The storage is resident in the spans of `there`. Between them it may be away, until backward unpacks it for the last
// time.
void StepTimeLowerBound::add_need(Need need, std::vector<Span> there, int last_asked) {
  int next = std::exchange(need.offloaded, {}).front().first;
  std::ranges::sort(there, {}, &Span::first);
  for (const Span& span : there) {
    if (next < span.first && last_asked >= span.first) need.offloaded.push_back({next, span.first - 1});
    for (int i = std::max(next, span.first); i <= span.last; ++i) held_bytes_[i] += need.bytes;
    next = std::max(next, span.last + 1);
  }
  if (last_asked > next) need.offloaded.push_back({next, last_asked - 1});
  for (const Span& span : need.offloaded)
    for (int i = span.first; i <= span.last; ++i) held_bytes_[i] += need.bytes;
  needs_.push_back(std::move(need));
}

// While the forward still holds the inputs that recompute the value, they take no extra room. Recomputation then counts
// as free.
void StepTimeLowerBound::add_pieces(int value, const ActivationRecomputeTimeLowerBounds& prices) {
  const int need = static_cast<int>(needs_.size()) - 1, until = prices.last_read(value);
  const std::vector<RecomputeCostCurveSegment>& pieces = prices.of(value);
  if (pieces.empty()) return;
  for (const RecomputeCostCurveSegment& piece : pieces) pieces_.push_back({piece, need, until + 1, kLast});
  if (until >= 0) pieces_.push_back({{static_cast<double>(needs_[need].bytes), 0}, need, 0, until});
}

// The host may see a copy as ended before compute gets to that point. This lead counts as time before the entry.
void StepTimeLowerBound::set_entries(const RecordedStepSimulationTables& tables, const RecordedStepCosts& costs,
                                     const UnmodelledMemory& unmodelled) {
  const RecordedStepCosts issued = issue_step(costs).costs;
  const auto host_ms_of = [&](double host_ms, double ms) { return tables.issues ? ms : host_ms; };
  double compute = 0, host = 0, ahead = 0;
  if (!tables.issues)
    for (const RecordedStepSimulationTables::Run& run : tables.runs) ahead += std::max(0.0, run.host_ms - run.ms);
  const auto add = [&](int64_t unmodelled_bytes, double ms, double host_ms) {
    const size_t entry = entries_.size();
    entries_.push_back({unmodelled_bytes + held_bytes_[entry], std::max(compute, host) + ahead, compute});
    compute += ms;
    host += host_ms;
  };
  for (size_t i = 0; i < tables.runs.size(); ++i)
    add(unmodelled.runs[i].before_bytes + unmodelled.runs[i].gathered_bytes + tables.runs[i].own_bytes,
        issued.runs[i].ms * tables.scale, host_ms_of(tables.runs[i].host_ms, issued.runs[i].ms * tables.scale));
  compute += issued.before_ms * tables.scale;
  host += issued.before_ms * tables.scale;
  for (size_t i = 0; i < costs.moments.size(); ++i)
    add(unmodelled.moments[i].peak_bytes + unmodelled.moments[i].gathered_bytes, issued.moments[i].ms * tables.scale,
        host_ms_of(tables.moment_host_ms[i], issued.moments[i].ms * tables.scale));
  for (Entry& entry : entries_) entry.behind_ms = compute - entry.behind_ms;
}

// Whether its neighbours need no more room.
bool StepTimeLowerBound::is_summit(size_t entry) const {
  const auto full = [this](size_t i) { return i < entries_.size() ? entries_[i].full_bytes : 0; };
  return full(entry) >= full(entry - 1) && full(entry) >= full(entry + 1);
}

// Least extra time that frees `bytes` at `entry`, over all mixes. Offloaded bytes must have left before the entry and
// are reloaded after it. Recomputation runs after it.
std::optional<double> StepTimeLowerBound::more_ms(size_t entry, int64_t bytes, int64_t host_budget_bytes) const {
  const double wanted = static_cast<double>(bytes);
  const double before_ms = entries_[entry].before_ms, behind_ms = entries_[entry].behind_ms;
  const int at = static_cast<int>(entry);
  double movable = 0;
  for (const Need& need : needs_)
    if (need.may_move && need.may_be_offloaded(at)) movable += static_cast<double>(need.bytes);
  std::vector<std::pair<double, double>> reruns = {{0, 0}};  // cumulative bytes and ms, cheapest first
  for (const Piece& piece : pieces_) {
    if (reruns.back().first >= wanted) break;
    if (at < piece.first_entry || at > piece.last_entry || !needs_[piece.need].may_be_offloaded(at)) continue;
    reruns.emplace_back(reruns.back().first + piece.bytes, reruns.back().second + piece.ms);
  }
  const auto remade_ms = [&](double made) {
    const auto above = std::ranges::lower_bound(reruns, made, {}, &std::pair<double, double>::first);
    if (above == reruns.end()) return kNever;
    if (above == reruns.begin()) return 0.0;
    const auto below = std::prev(above);
    return below->second + (above->second - below->second) * (made - below->first) / (above->first - below->first);
  };
  const auto ms = [&](double moved) {
    const double made_ms = remade_ms(wanted - moved), out_wait_ms = std::max(0.0, moved * out_ms_ - before_ms);
    const double in_wait_ms = std::max(0.0, moved * in_ms_ - behind_ms - made_ms);
    return made_ms + (1 - slowdown_) * (out_wait_ms + in_wait_ms) + slowdown_ * moved * (out_ms_ + in_ms_);
  };
  double low = std::max(0.0, wanted - reruns.back().first), high = std::min(wanted, movable);
  if (host_budget_bytes > 0) high = std::min(high, static_cast<double>(host_budget_bytes));
  if (low > high * (1 + kRounding)) return {};
  for (int i = 0; i < 100; ++i) {  // ternary search: ms() is convex
    const double third = (high - low) / 3;
    if (ms(low + third) <= ms(high - third))
      high -= third;
    else
      low += third;
  }
  return std::max(0.0, std::min(ms(low), ms(high)));
}

std::optional<double> StepTimeLowerBound::least_ms(int64_t budget_bytes, int64_t host_budget_bytes) const {
  double most = 0;
  for (size_t entry = 0; entry < entries_.size(); ++entry) {
    const int64_t bytes = entries_[entry].full_bytes;
    if (bytes <= budget_bytes || !is_summit(entry)) continue;
    const auto more = more_ms(entry, bytes - budget_bytes, host_budget_bytes);
    if (!more) return {};
    most = std::max(most, *more);
  }
  return (step_ms_ + passes_ * std::max(0.0, most - idle_ms_)) * (1 - kRounding);
}

}  // namespace memtune::planner
