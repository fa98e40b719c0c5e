#include "core/plan/schedule/unit_schedule.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"

namespace memtune::schedule {
namespace {

// A unit that is gathered again more often than this in one pass stays gathered, because its readers alternate with
// those of other units.
constexpr int kMostReturns = 1;

}  // namespace

Reshard parse_reshard(const std::string& text) {
  const auto& names = kReshard;  // in the order of the enumerators
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw UsageError(unknown_name("reshard", text, names));
  return static_cast<Reshard>(found - names.begin());
}

void UnitSchedule::begin_step() {
  drop();
  for (Unit& unit : units_) unit.stale = true;
}

void UnitSchedule::drop() {
  pass_ = Pass::none;
  for (size_t unit = 0; unit < units_.size(); ++unit) memory_.wait(static_cast<int>(unit));
  free_all();
}

void UnitSchedule::free_all() {
  for (size_t unit = 0; reshard_ != Reshard::never && unit < units_.size(); ++unit) free(static_cast<int>(unit));
}

void UnitSchedule::begin_pass(Pass pass, UnitOrder& order) {
  pass_ = pass;
  read_by_node_.clear();
  for (Unit& unit : units_) {
    unit.in_use = false;
    unit.returns = 0;
  }
  if (const auto first = order.begin()) gather(*first);
}

void UnitSchedule::end_backward() {
  pass_ = Pass::none;
  free_all();
}

void UnitSchedule::read_by_node(const Units& units) {
  read_by_node_ = units;
  need(units, {});
}

void UnitSchedule::need(const Units& units, const Units& kept) {
  if (units.empty() || std::ranges::all_of(units, [&](int unit) { return units_[unit].in_use; })) return;
  leave_others(units, kept);
  for (const int unit : units)
    if (!units_[unit].in_use) enter(unit);
}

void UnitSchedule::enter(int unit) {
  gather(unit);
  memory_.wait(unit);
  units_[unit].in_use = true;
  if (pass_ == Pass::none) return;
  UnitOrder& order = pass_ == Pass::forward ? learned_.forward : learned_.backward;
  if (const auto next = order.next(unit)) gather(*next);
}

void UnitSchedule::gather(int unit) {
  if (!units_[unit].stale) return;
  memory_.gather(unit);
  units_[unit].stale = false;
}

void UnitSchedule::leave_others(const Units& units, const Units& kept) {
  const bool frees = reshard_ == Reshard::always || (reshard_ == Reshard::after_backward && pass_ == Pass::backward);
  if (!frees) return;
  for (size_t i = 0; i < units_.size(); ++i) {
    const int unit = static_cast<int>(i);
    if (!units_[i].in_use || std::ranges::count(units, unit) + std::ranges::count(kept, unit) > 0) continue;
    if (++units_[i].returns > kMostReturns + 1) continue;
    free(unit);
  }
}

void UnitSchedule::free(int unit) {
  memory_.wait(unit);
  memory_.free(unit);
  units_[unit].stale = true;
  units_[unit].in_use = false;
}

}  // namespace memtune::schedule
