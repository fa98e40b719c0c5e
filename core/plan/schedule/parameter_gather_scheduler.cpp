#include "core/plan/schedule/parameter_gather_scheduler.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"

namespace memtune::schedule {
namespace {

// A unit that is gathered again more often than this in one pass stays gathered, because its readers alternate with
// those of other units.
constexpr int kMaxReturns = 1;

}  // namespace

ReshardPolicy parse_reshard(const std::string& text) {
  const auto& names = kReshard;  // in the order of the enumerators
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw UsageError(unknown_name("reshard", text, names));
  return static_cast<ReshardPolicy>(found - names.begin());
}

void ParameterGatherScheduler::begin_step() {
  drop();
  for (Unit& unit : units_) unit.stale = true;
}

void ParameterGatherScheduler::drop() {
  pass_ = Pass::none;
  for (size_t unit = 0; unit < units_.size(); ++unit) memory_.wait(static_cast<int>(unit));
  free_all();
}

void ParameterGatherScheduler::free_all() {
  for (size_t unit = 0; reshard_ != ReshardPolicy::never && unit < units_.size(); ++unit) free(static_cast<int>(unit));
}

void ParameterGatherScheduler::begin_pass(Pass pass, NextGatherPredictor& order) {
  pass_ = pass;
  read_by_node_.clear();
  for (Unit& unit : units_) {
    unit.in_use = false;
    unit.returns = 0;
  }
  if (const auto first = order.begin()) gather(*first);
}

void ParameterGatherScheduler::end_backward() {
  pass_ = Pass::none;
  free_all();
}

void ParameterGatherScheduler::read_by_node(const Units& units) {
  read_by_node_ = units;
  need(units, {});
}

void ParameterGatherScheduler::need(const Units& units, const Units& kept) {
  if (units.empty() || std::ranges::all_of(units, [&](int unit) { return units_[unit].in_use; })) return;
  leave_others(units, kept);
  for (const int unit : units)
    if (!units_[unit].in_use) enter(unit);
}

void ParameterGatherScheduler::enter(int unit) {
  gather(unit);
  memory_.wait(unit);
  units_[unit].in_use = true;
  if (pass_ == Pass::none) return;
  NextGatherPredictor& order = pass_ == Pass::forward ? learned_.forward : learned_.backward;
  if (const auto next = order.next(unit)) gather(*next);
}

void ParameterGatherScheduler::gather(int unit) {
  if (!units_[unit].stale) return;
  memory_.gather(unit);
  units_[unit].stale = false;
}

void ParameterGatherScheduler::leave_others(const Units& units, const Units& kept) {
  const bool frees =
      reshard_ == ReshardPolicy::always || (reshard_ == ReshardPolicy::after_backward && pass_ == Pass::backward);
  if (!frees) return;
  for (size_t i = 0; i < units_.size(); ++i) {
    const int unit = static_cast<int>(i);
    if (!units_[i].in_use || std::ranges::count(units, unit) + std::ranges::count(kept, unit) > 0) continue;
    if (++units_[i].returns > kMaxReturns + 1) continue;
    free(unit);
  }
}

void ParameterGatherScheduler::free(int unit) {
  memory_.wait(unit);
  memory_.free(unit);
  units_[unit].stale = true;
  units_[unit].in_use = false;
}

}  // namespace memtune::schedule
