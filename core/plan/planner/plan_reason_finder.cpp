#include "core/plan/planner/plan_reason_finder.h"

#include <algorithm>

#include "core/plan/rules/op_class.h"

namespace memtune::planner {
namespace {

using plan::ProgramOpFacts;
using plan::TensorPlacement;

// Name of an op for people: that of its module for a matmul or norm, else that of the op.
std::string short_name(const ProgramOpFacts& op) {
  const std::string leaf = op.region.substr(op.region.rfind('.') + 1);
  const bool is_module = (plan::is_matmul(op) || plan::is_norm(op)) && !leaf.empty();
  const bool is_number = leaf.find_first_not_of("0123456789") == std::string::npos;
  return is_module && !is_number ? leaf : plan::strip_op_namespace(op.name);
}

}  // namespace

PlanReasonFinder::PlanReasonFinder(const Planner& planner, const PredictedPlan& step) : planner_(planner), step_(step) {
  planner.model_->predict(step.plan, planner.tiers_, &log_);
}

PlanReasons PlanReasonFinder::find() {
  PlanReasons reasons;
  std::vector<size_t> first;  // first part of each entry of `reasons.parts`
  for (size_t part = 0; part < planner_.parts_.size(); ++part) {
    const auto known = std::ranges::find_if(first, [&](size_t other) { return alike(part, other); });
    const auto at = static_cast<size_t>(known - first.begin());
    if (known == first.end()) {
      first.push_back(part);
      reasons.parts.push_back({.where = where(part)});
      name(part, reasons.parts.back());
    }
    add(part, reasons.parts[at]);
  }
  std::erase_if(reasons.parts, [](const SamePolicyBlocksPlanExplanation& treated) {
    return treated.kept_bytes + treated.offloaded_bytes + treated.freed_bytes == 0;
  });
  reasons.peak = peak();
  return reasons;
}

SamePolicyBlocksPlanExplanation::Where PlanReasonFinder::where(size_t part) const {
  if (part == 0) return SamePolicyBlocksPlanExplanation::Where::before;
  return part + 1 == planner_.parts_.size() ? SamePolicyBlocksPlanExplanation::Where::behind
                                            : SamePolicyBlocksPlanExplanation::Where::blocks;
}

size_t PlanReasonFinder::part_of(int op) const {
  const ProgramOpFacts& facts = planner_.facts_.ops[static_cast<size_t>(op)];
  if (facts.block >= 0) return static_cast<size_t>(facts.block) + 1;
  return facts.after_blocks ? planner_.parts_.size() - 1 : 0;
}

// The op that runs at an entry of the log, or whose backward runs there.
int PlanReasonFinder::op_at(size_t entry) const {
  const plan::RecordedStepCosts& costs = planner_.costs_;
  if (entry < costs.runs.size()) return costs.runs[entry].op;
  const int saved = costs.moments[entry - costs.runs.size()].saved;
  return costs.runs[static_cast<size_t>(costs.saved[static_cast<size_t>(saved)].run)].op;
}

const BlockOption& PlanReasonFinder::chosen(size_t part) const {
  return planner_.parts_[part].options[static_cast<size_t>(step_.choice[part])];
}

bool PlanReasonFinder::alike(size_t a, size_t b) const {
  return where(a) == where(b) && planner_.parts_[a].structure == planner_.parts_[b].structure &&
         step_.choice[a] == step_.choice[b];
}

void PlanReasonFinder::add(size_t part, SamePolicyBlocksPlanExplanation& treated) const {
  const BlockOption &now = chosen(part), &all = planner_.parts_[part].options.front();
  if (where(part) == SamePolicyBlocksPlanExplanation::Where::blocks)
    treated.blocks.push_back(static_cast<int>(part) - 1);
  treated.freed_bytes += all.resident_bytes - now.resident_bytes - now.offloaded_bytes;
  treated.offloaded_bytes += now.offloaded_bytes;
  treated.kept_bytes += now.resident_bytes;
  add_times(part, treated);
  add_next(part, treated);
}

void PlanReasonFinder::add_times(size_t part, SamePolicyBlocksPlanExplanation& treated) const {
  const int passes = planner_.costs_.passes;
  for (size_t entry = 0; entry < log_.entries.size(); ++entry) {
    if (part_of(op_at(entry)) != part) continue;
    treated.recompute_ms += passes * log_.entries[entry].rerun_ms;
    treated.wait_ms += passes * log_.entries[entry].wait_ms;
  }
}

void PlanReasonFinder::add_next(size_t part, SamePolicyBlocksPlanExplanation& treated) const {
  const BlockOption& now = chosen(part);
  const BlockOption* next = nullptr;
  const auto bytes = [&](const BlockOption& option) { return now.resident_bytes - option.resident_bytes; };
  const auto price = [&](const BlockOption& option) {
    return (option.recompute_ms - now.recompute_ms) / static_cast<double>(bytes(option));
  };
  for (const BlockOption& option : planner_.parts_[part].options) {
    if (bytes(option) <= 0 || option.offloaded_bytes > now.offloaded_bytes || option.recompute_ms < now.recompute_ms)
      continue;
    if (!next || price(option) < price(*next)) next = &option;
  }
  if (!next) return;
  const double scale = planner_.model_->tables().scale * planner_.costs_.passes;
  treated.next_bytes += bytes(*next);
  treated.next_ms += scale * (next->recompute_ms - now.recompute_ms);
}

void PlanReasonFinder::name(size_t part, SamePolicyBlocksPlanExplanation& treated) const {
  for (const ActivationStoragePlacement& placed : chosen(part).places) {
    const plan::OpOutputAllocationNode& memory = planner_.graph_.memories()[static_cast<size_t>(placed.memory)];
    const std::string name = short_name(planner_.facts_.ops[static_cast<size_t>(memory.op)]);
    std::vector<std::string>& names = placed.place == TensorPlacement::recompute ? treated.recomputed : treated.moved;
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
}

PeakLocation PlanReasonFinder::peak() const {
  const size_t runs = planner_.costs_.runs.size(), entry = log_.peak_entry;
  PeakLocation moment{.bytes = step_.predicted.peak_bytes};
  if (entry >= runs + planner_.costs_.moments.size()) {
    moment.pass = PeakLocation::Pass::update;
    return moment;
  }
  if (entry >= runs) moment.pass = PeakLocation::Pass::backward;
  const ProgramOpFacts& op = planner_.facts_.ops[static_cast<size_t>(op_at(entry))];
  moment.block = op.block;
  moment.region = op.region;
  moment.op = op.name;
  return moment;
}

PlanReasons Planner::reasons(const PredictedPlan& step) const { return PlanReasonFinder(*this, step).find(); }

}  // namespace memtune::planner
