#include "core/plan/planner/planner.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

#include "core/base/bounds.h"
#include "core/plan/planner/block_option_plan_search.h"
#include "core/plan/planner/model_state_offload_simulator.h"
#include "core/plan/planner/step_costs_with_waits_for_host.h"
#include "core/plan/strategy/third_party_engine_preset.h"

namespace memtune::planner {
namespace {

using plan::ProgramOpFacts;
using plan::RecordedStepCosts;

// Recorded costs of a part of the chain: a block, or the ops before or after the blocks. Bytes are allocated bytes.
struct PartCosts {
  double forward_ms = 0, backward_ms = 0;
  int64_t before_bytes = -1;   // at the start of its forward; -1: it has none
  int64_t forward_bytes = 0;   // peak in its forward
  int64_t backward_bytes = 0;  // peak in its backward
};

// The part of the chain that an op is in: before the blocks, a block, after them.
size_t part_of(const plan::ProgramFacts& facts, int op) {
  const ProgramOpFacts& one = facts.ops[static_cast<size_t>(op)];
  return one.block >= 0 ? static_cast<size_t>(one.block) + 1 : one.after_blocks ? facts.blocks.size() + 1 : 0;
}

std::vector<PartCosts> costs_of_parts(const plan::ProgramFacts& facts, const RecordedStepCosts& costs) {
  std::vector<PartCosts> parts(facts.blocks.size() + 2);
  const auto costs_at = [&](int run) -> PartCosts& {
    return parts[part_of(facts, costs.runs[static_cast<size_t>(run)].op)];
  };
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    const RecordedStepCosts::Run& run = costs.runs[i];
    PartCosts& part = costs_at(static_cast<int>(i));
    if (part.before_bytes < 0) part.before_bytes = run.before_bytes;
    part.forward_ms += run.ms;
    part.forward_bytes = std::max(part.forward_bytes, run.before_bytes + run.own_bytes);
  }
  for (const RecordedStepCosts::Moment& moment : costs.moments) {
    PartCosts& part = costs_at(costs.saved[static_cast<size_t>(moment.saved)].run);
    part.backward_ms += moment.ms;
    part.backward_bytes = std::max(part.backward_bytes, moment.peak_bytes);
  }
  int64_t next = costs.runs.empty() ? 0 : costs.runs.back().before_bytes;
  for (size_t i = parts.size(); i-- > 0; next = parts[i].before_bytes)
    if (parts[i].before_bytes < 0) parts[i].before_bytes = next;
  return parts;
}

constexpr int kRungs = 8;
constexpr int kMaxSearches = 6;                      // for a plan that the allocator has room for
constexpr int64_t kLeastStep = 128, kMostStep = 16;  // parts of the budget by which a search is for less
constexpr size_t kMaxOnDevice = 64;                  // choices of one search whose segments are simulated
constexpr size_t kFewOnDevice = 16;                  // of these; if all need far more than the device has, they suffice
constexpr double kNearlyAsFast = 1.02;
// Part of the budget that segments leave unused, for memory that the allocator's simulation does not know.
constexpr int64_t kUnmodelledShare = 64;
// What expandable segments leave unused: they grow by pages of 20 MiB, which blocks fill in part.
constexpr int64_t kUnusedPages = int64_t{320} << 20, kUnusedShare = 64;  // not more than a 64th of the budget

constexpr double kWorthMore = 0.995;    // a plan that offloads more states takes less than this part of another's time
constexpr double kSlow = 1.35;          // of a step that keeps everything: slower than with all activations recomputed
constexpr double kLeastOfAlike = 0.97;  // of the fastest step with all blocks alike: a search seldom finds less
constexpr int kShares = 4;              // offloaded are the states of a quarter of the blocks, of two, three, all

// Blocks apart from each other give their copies most time.
bool is_in_share(size_t block, size_t share) { return (block + 1) * share / kShares > block * share / kShares; }

bool can_offload_states(const RecordedStepCosts& costs) { return !costs.states.units.empty() && costs.passes == 1; }

// From nothing offloaded to everything.
std::vector<std::vector<plan::UnitStatePlacement>> state_placements(const plan::ProgramFacts& facts) {
  std::vector<std::vector<plan::UnitStatePlacement>> placements(1);
  constexpr auto kHost = plan::TensorPlacement::host, kKeep = plan::TensorPlacement::keep;
  for (size_t share = 1; share <= kShares; ++share) {
    std::vector<plan::UnitStatePlacement>& placed = placements.emplace_back();
    for (size_t i = 0; i < facts.blocks.size(); ++i)
      if (is_in_share(i, share)) placed.push_back({facts.blocks[i].region, kHost, kHost});
    if (placed.empty() || placed == placements[placements.size() - 2]) placements.pop_back();
  }
  const std::vector<plan::UnitStatePlacement> blocks = placements.back();
  for (const plan::TensorPlacement parameters : {kKeep, kHost}) {
    placements.push_back(blocks);
    placements.back().push_back({plan::kOutsideUnits, parameters, kHost});
  }
  return placements;
}

int64_t usable_bytes(const PlanMemoryBudgets& limits) {
  return limits.budget_bytes - limits.budget_bytes / kUnmodelledShare;
}

}  // namespace

AllowedOffloadTiersAndHostBudget tiers(const PlanMemoryBudgets& limits, bool disk, bool states,
                                       const RecordedStepCosts& costs) {
  return {limits.host_budget_bytes, disk && costs.disk_write_gb_per_s > 0 && costs.disk_read_gb_per_s > 0, states};
}

std::vector<PlanMemoryBudgets> budget_ladder(int64_t most_bytes, int64_t least_bytes, PlanMemoryBudgets limit) {
  std::vector<PlanMemoryBudgets> limits;
  least_bytes = std::min(least_bytes, most_bytes);
  for (int i = 0; i < kRungs; ++i) {
    const int64_t bytes = most_bytes - (most_bytes - least_bytes) * i / (kRungs - 1);
    limit.budget_bytes = bytes;
    if (limits.empty() || limits.back().budget_bytes != bytes) limits.push_back(limit);
  }
  return limits;
}

Planner::Planner(const plan::ProgramFacts& facts, RecordedStepCosts costs,
                 const AllowedOffloadTiersAndHostBudget& tiers, unsigned cores)
    : facts_(facts),
      graph_(facts),
      costs_(std::move(costs)),
      tiers_(tiers),
      out_gb_per_s_(costs_.out_gb_per_s),
      in_gb_per_s_(costs_.in_gb_per_s),
      model_(std::in_place, facts_, costs_),
      bound_(std::in_place, model_->tables(), costs_, model_->unmodelled(), limits_.offload_min_bytes),
      cores_(cores) {
  limits_.outside = true;
  limits_.disk = tiers_.disk && tiers_.host_budget_bytes > 0;
  int64_t gradient_bytes = 0;
  for (const RecordedStepCosts::StateUnit& unit : costs_.states.units)
    gradient_bytes = bounded_sum(gradient_bytes, unit.trained_bytes);
  for (auto& states : state_placements(facts_)) {
    if (!placements_.empty() && !(tiers_.states && can_offload_states(costs_))) break;
    Placement& placement = placements_.emplace_back();
    placement.states = std::move(states);
    if (placement.states.empty()) continue;
    plan::Plan plan;
    plan.states = placement.states;
    placement.freed_bytes = bounded_sum(offloaded_state_bytes(costs_, plan), gradient_bytes);
  }
  parts_ = block_options(facts_, graph_, issue_step(costs_).costs, limits_);
  for (const RecordedStepCosts::Run& run : costs_.runs) part_of_entry_.push_back(part_of(facts_, run.op));
  for (const RecordedStepCosts::Moment& moment : costs_.moments)
    part_of_entry_.push_back(part_of_entry_[static_cast<size_t>(costs_.saved[static_cast<size_t>(moment.saved)].run)]);
}

void Planner::scale_link(double factor) {
  costs_.out_gb_per_s = factor * out_gb_per_s_;
  costs_.in_gb_per_s = factor * in_gb_per_s_;
  model_.emplace(facts_, costs_);
  bound_.emplace(model_->tables(), costs_, model_->unmodelled(), limits_.offload_min_bytes);
  scores_.clear();
}

// Bytes of a part are the recorded ones minus those that its option does not keep.
ChainPlanningProblem Planner::make_chain() const {
  const std::vector<PartCosts> costs = costs_of_parts(facts_, issue_step(costs_).costs);
  ChainPlanningProblem chain;
  chain.out_bytes_per_ms = plan::kBytesPerMs * costs_.out_gb_per_s;
  chain.in_bytes_per_ms = plan::kBytesPerMs * costs_.in_gb_per_s;
  chain.write_bytes_per_ms = plan::kBytesPerMs * costs_.disk_write_gb_per_s;
  chain.read_bytes_per_ms = plan::kBytesPerMs * costs_.disk_read_gb_per_s;
  double slowdown_ms = 0;  // of compute, per byte offloaded and reloaded
  if (costs_.out_gb_per_s > 0 && costs_.in_gb_per_s > 0)
    slowdown_ms = costs_.copy_slowdown * (1 / chain.out_bytes_per_ms + 1 / chain.in_bytes_per_ms);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const PartCosts& part = costs[i];
    const int64_t kept = parts_[i].options.front().resident_bytes;
    const int64_t grown = i + 1 < parts_.size() ? costs[i + 1].before_bytes - part.before_bytes : kept;
    ChainBlockTimesAndOptions& block =
        chain.blocks.emplace_back(ChainBlockTimesAndOptions{part.forward_ms, part.backward_ms, {}});
    for (const BlockOption& option : parts_[i].options)
      block.options.push_back({.resident_bytes = std::max<int64_t>(0, grown - (kept - option.resident_bytes)),
                               .offloaded_bytes = option.offloaded_bytes,
                               .recompute_ms = option.recompute_ms + slowdown_ms * double(option.offloaded_bytes),
                               .forward_peak_bytes = std::max<int64_t>(0, part.forward_bytes - part.before_bytes),
                               .backward_peak_bytes = std::max<int64_t>(0, part.backward_bytes - part.before_bytes),
                               .disk_bytes = option.disk_bytes});
  }
  return chain;
}

plan::Plan Planner::make_plan(const Choice& choice, const std::string& name) const {
  std::vector<BlockOption> chosen;
  for (size_t i = 0; i < parts_.size(); ++i) chosen.push_back(parts_[i].options[static_cast<size_t>(choice[i])]);
  plan::Plan plan = plan_of_options(chosen, facts_, graph_, limits_, name);
  plan.transfer.stash_bytes = stash_bytes(choice.back());
  plan.states = placement(choice.back()).states;
  return plan;
}

int64_t Planner::stash_bytes(Variant variant) const {
  return kStashBytes[static_cast<size_t>(variant) % std::size(kStashBytes)];
}

const Planner::Placement& Planner::placement(Variant variant) const {
  return placements_[static_cast<size_t>(variant) / std::size(kStashBytes)];
}

// `states`: those that offload parameters or optimizer states, or those that do not.
std::vector<Planner::Variant> Planner::variants(bool states) const {
  std::vector<Variant> variants;
  const size_t sizes = costs_.grain_bytes == 1 ? 1 : std::size(kStashBytes);
  for (size_t i = states ? 1 : 0; i < (states ? placements_.size() : 1); ++i)
    for (size_t size = 0; size < sizes; ++size)
      variants.push_back(static_cast<Variant>(i * std::size(kStashBytes) + size));
  return variants;
}

const StepPrediction& Planner::score(const Choice& choice, Scores& scores) const {
  const auto [found, added] = scores.try_emplace(choice);
  if (added) found->second = predict_choice(choice);
  return found->second;
}

PredictedPlan Planner::planned(const Choice& choice, const PlanMemoryBudgets& limits, const std::string& name,
                               Scores& scores) const {
  return {make_plan(choice, name), score(choice, scores), choice, least_ms(limits, choice.back()).value_or(0)};
}

// As the allocator of a device of the budget's size would run it, with or without expandable segments.
StepPrediction Planner::predict_on_device(const Choice& choice, const PlanMemoryBudgets& limits,
                                          bool expandable_segments) const {
  return model_->predict(make_plan(choice, ""), tiers_, nullptr, {usable_bytes(limits), expandable_segments});
}

// Offloaded bytes have to fit in host memory and on disk together.
std::optional<double> Planner::least_ms(const PlanMemoryBudgets& limits, Variant variant) const {
  const bool endless = limits.host_budget_bytes == 0 || (limits_.disk && limits.disk_budget_bytes == 0);
  const int64_t room = limits.host_budget_bytes + (limits_.disk ? limits.disk_budget_bytes : 0);
  const int64_t more = placement(variant).freed_bytes;
  const int64_t bytes = bounded_sum(limits.budget_bytes - costs_.device_overhead_bytes, more);
  return bound_->least_ms(bytes, endless ? 0 : room);
}

std::optional<PredictedPlan> Planner::plan(const PlanMemoryBudgets& limits, const std::string& name, bool safe) const {
  const auto named = [&](const PlanMemoryBudgets&) { return name; };
  const auto plan_of = [&](bool states) {
    FittingPlans found = search(std::span(&limits, 1), variants(states), named, safe, {}).front();
    auto& first = safe ? found.safe : found.tight;
    return first ? std::move(first) : std::move(safe ? found.tight : found.safe);
  };
  std::optional<PredictedPlan> planned = plan_of(false);
  if (!planned) planned = plan_with_retries(limits, name);
  if (planned && !is_slow(*planned, limits)) return planned;
  std::optional<PredictedPlan> offloading = plan_of(true);
  if (!planned) return offloading;
  const bool faster = offloading && offloading->predicted.step_ms < kWorthMore * planned->predicted.step_ms;
  return faster ? std::move(offloading) : std::move(planned);
}

// Activations give way to parameters and optimizer states that no op needs: then these are worth offloading, too.
bool Planner::is_slow(const PredictedPlan& step, const PlanMemoryBudgets& limits) const {
  if (!tiers_.states) return false;
  if (step.predicted.step_ms > kSlow * costs_.step_ms) return true;
  for (size_t i = 1; i < placements_.size(); ++i) {
    const auto variant = static_cast<Variant>(i * std::size(kStashBytes));
    const auto choice = BlockOptionPlanSearch(*this, limits, scores_, variant).fastest_alike();
    if (choice && score(*choice).step_ms < kWorthMore * step.predicted.step_ms) return true;
  }
  return false;
}

// With expandable segments, free memory in pieces often only costs time: the allocator releases the pages that are free
// as a whole, and maps them again in each step.
std::optional<PredictedPlan> Planner::plan_with_retries(const PlanMemoryBudgets& limits,
                                                        const std::string& name) const {
  if (costs_.grain_bytes == 1) return std::nullopt;
  PlanMemoryBudgets goal = limits;
  goal.budget_bytes -= std::min(kUnusedPages, limits.budget_bytes / kUnusedShare);
  for (int i = 0; i < kMaxSearches; ++i) {
    const auto choice = BlockOptionPlanSearch(*this, goal, scores_).fastest();
    if (!choice) break;
    const int64_t lacking_bytes = predict_on_device(*choice, limits, true).lasting_short_bytes;
    if (lacking_bytes == 0) {
      PredictedPlan step = planned(*choice, limits, name, scores_);
      step.predicted.short_bytes = std::max<int64_t>(1, predict_on_device(step.plan, goal.budget_bytes).short_bytes);
      return step;
    }
    goal.budget_bytes = std::min(goal.budget_bytes, score(*choice).required_bytes) -
                        std::clamp(lacking_bytes, limits.budget_bytes / kLeastStep, limits.budget_bytes / kMostStep);
  }
  return std::nullopt;
}

// Gradients of several micro-batches were allocated when the step was recorded.
bool Planner::can_predict(const plan::Plan& plan) const {
  if (plan::offloads_each_save(plan)) return false;
  return !plan.offloads_states() || can_offload_states(costs_);
}

StepPrediction Planner::predict_on_device(const plan::Plan& plan, int64_t device_bytes) const {
  return model_->predict(plan, tiers_, nullptr, {.bytes = device_bytes});
}

// Takes the first of the choices, fastest first, that fits. Returns what the best of them lacks to be safe. On a
// device, free cores predict the next choices meanwhile.
int64_t Planner::take_fitting(const std::vector<Choice>& choices, const PlanMemoryBudgets& limits,
                              const std::string& name, Scores& scores, FittingPlans& found) const {
  int64_t missing_bytes = std::numeric_limits<int64_t>::max();
  std::map<size_t, StepPrediction> growing, fixed;  // by choice
  const auto predict_ahead = [&](std::map<size_t, StepPrediction>& steps, size_t first) {
    if (steps.contains(first)) return;
    const CoreSemaphore::Helpers helpers(cores_, choices.size() - first - 1);
    std::vector<StepPrediction> next(helpers.count() + 1);
    helpers.run(next.size(), [&](size_t i) {
      next[i] = costs_.grain_bytes > 1 ? predict_on_device(choices[first + i], limits, &steps == &growing)
                                       : scores.at(choices[first + i]);
    });
    for (size_t i = 0; i < next.size(); ++i) steps.emplace(first + i, next[i]);
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i == kFewOnDevice && missing_bytes > limits.budget_bytes / kUnmodelledShare) break;  // none is near
    predict_ahead(growing, i);
    missing_bytes = std::min(missing_bytes, growing.at(i).short_bytes);
    const bool safe = growing.at(i).short_bytes == 0;
    if (!safe && found.tight) continue;
    predict_ahead(fixed, i);
    const int64_t short_bytes = fixed.at(i).short_bytes;
    const auto taken = [&](const StepPrediction& predicted) {
      PredictedPlan step = planned(choices[i], limits, name, scores);
      step.predicted = predicted;
      step.predicted.short_bytes = short_bytes;
      step.safe = safe;
      return step;
    };
    if (short_bytes == 0 && !found.tight) found.tight = taken(fixed.at(i));
    if (safe && short_bytes == 0) {
      found.safe = taken(fixed.at(i));
      break;
    }
    if (safe && !found.safe) found.safe = taken(growing.at(i));
  }
  return missing_bytes;
}

// A choice fits by what it allocates. If the allocator needs more than the device has, because free memory is in
// pieces, choices that are nearly as fast are tried, then those of a search for less, and at last any.
Planner::FittingPlans Planner::search(const PlanMemoryBudgets& limits, Variant variant, const std::string& name,
                                      bool safe, Scores& scores) const {
  FittingPlans found;
  PlanMemoryBudgets goal = limits;
  for (int i = 0; i < kMaxSearches && !found.safe && (safe || !found.tight); ++i) {
    BlockOptionPlanSearch search(*this, goal, scores, variant);
    const auto fastest = search.fastest();
    if (!fastest) break;
    const StepPrediction& best = score(*fastest, scores);
    std::vector<Choice> choices = search.known(kMaxOnDevice);
    std::erase_if(choices,
                  [&](const Choice& choice) { return score(choice, scores).step_ms > kNearlyAsFast * best.step_ms; });
    const int64_t missing_bytes = take_fitting(choices, limits, name, scores, found);
    goal.budget_bytes = std::min(goal.budget_bytes, best.required_bytes) -
                        std::clamp(missing_bytes, limits.budget_bytes / kLeastStep, limits.budget_bytes / kMostStep);
  }
  if (!found.safe && !found.tight)
    take_fitting(BlockOptionPlanSearch(*this, limits, scores, variant).known(kMaxOnDevice), limits, name, scores,
                 found);
  return found;
}

PredictedPlan Planner::least_memory(PlanMemoryBudgets limits, const std::string& name) const {
  limits.budget_bytes = std::numeric_limits<int64_t>::max();
  const Variant most = variants(placements_.size() > 1).back();
  const Choice smallest = BlockOptionPlanSearch(*this, limits, scores_, most).smallest();
  limits.budget_bytes = score(smallest).required_bytes;
  return planned(smallest, limits, name, scores_);
}

void Planner::take_faster(std::optional<PredictedPlan>& best, std::optional<PredictedPlan> step) const {
  const double worth = step && offloads_states(step->choice) ? kWorthMore : 1;
  if (step && (!best || step->predicted.step_ms < worth * best->predicted.step_ms)) best = std::move(step);
}

// From the placement of states whose step with all blocks alike is the fastest to the slowest; those of which no such
// step fits are last.
std::vector<Planner::RankedPlacement> Planner::ranked(const PlanMemoryBudgets& limits,
                                                      std::span<const Variant> variants, Scores& scores) const {
  std::vector<RankedPlacement> ranked;
  for (const Variant variant : variants) {
    if (ranked.empty() || &placement(ranked.back().variants.front()) != &placement(variant)) ranked.emplace_back();
    RankedPlacement& one = ranked.back();
    one.variants.push_back(variant);
    one.least_ms = std::min(one.least_ms, least_ms(limits, variant).value_or(one.least_ms));
    if (const auto choice = BlockOptionPlanSearch(*this, limits, scores, variant).fastest_alike())
      one.alike_ms = std::min(one.alike_ms, score(*choice, scores).step_ms);
  }
  std::ranges::stable_sort(ranked, {}, &RankedPlacement::alike_ms);
  return ranked;
}

// One placement after the other. Those that are unlikely to be faster are left out. Each variant starts from the same
// scores: the choices of another would take the place of its own on the device.
Planner::FittingPlans Planner::search(const PlanMemoryBudgets& limits, std::span<const Variant> variants,
                                      const std::string& name, bool safe, Scores& scores) const {
  FittingPlans found;
  const std::vector<RankedPlacement> placements = ranked(limits, variants, scores);
  const Scores before = scores;
  for (const RankedPlacement& next : placements) {
    const std::optional<PredictedPlan>& best = safe ? found.safe : found.tight;
    if (best && best->predicted.step_ms < std::max(kLeastOfAlike * next.alike_ms, kGood * next.least_ms)) continue;
    for (const Variant variant : next.variants) {
      Scores own = before;
      FittingPlans others = search(limits, variant, name, safe, own);
      take_faster(found.tight, std::move(others.tight));
      take_faster(found.safe, std::move(others.safe));
      scores.merge(own);
    }
  }
  return found;
}

// Limits are searched in parallel. Each search starts from the same scores, so its result does not depend on the
// others.
std::vector<Planner::FittingPlans> Planner::search(std::span<const PlanMemoryBudgets> limits,
                                                   std::span<const Variant> variants, const NamePlan& name, bool safe,
                                                   const std::function<void(size_t)>& begin) const {
  std::vector<Scores> scores(limits.size(), scores_);
  std::vector<std::future<FittingPlans>> searches;
  for (size_t i = 0; i < limits.size(); ++i) {
    const auto run = [&, i, text = name(limits[i])] {
      const CoreSemaphore::Held core(cores_);
      return search(limits[i], variants, text, safe, scores[i]);
    };
    try {
      searches.push_back(std::async(std::launch::async, run));
    } catch (const std::system_error&) {  // no more threads: runs in get()
      searches.push_back(std::async(std::launch::deferred, run));
    }
  }
  std::vector<FittingPlans> plans;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (begin) begin(i);
    plans.push_back(searches[i].get());
  }
  for (Scores& more : scores) scores_.merge(more);
  return plans;
}

// A search for one budget may find a better plan for another budget. Each budget therefore takes the best plan of all
// searches. None is slower than the next tighter one, whose plan fits it too. Budgets that no plan fits, or only a slow
// one, are searched again, for plans that offload parameters and optimizer states.
std::vector<std::optional<PredictedPlan>> Planner::plan_budgets(std::span<const PlanMemoryBudgets> limits,
                                                                const NamePlan& name,
                                                                const std::function<void(size_t)>& begin) const {
  std::vector<FittingPlans> fitting = search(limits, variants(false), name, true, begin);
  std::vector<std::optional<PredictedPlan>> plans(limits.size());
  std::vector<size_t> tight;
  std::vector<PlanMemoryBudgets> tight_limits;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (fitting[i].none() && (plans[i] = plan_with_retries(limits[i], name(limits[i]))) &&
        !is_slow(*plans[i], limits[i]))
      continue;
    const std::optional<PredictedPlan>& found = fitting[i].safe ? fitting[i].safe : fitting[i].tight;
    if (found && !is_slow(*found, limits[i])) continue;
    tight.push_back(i);
    tight_limits.push_back(limits[i]);
  }
  std::vector<FittingPlans> offloading = search(tight_limits, variants(true), name, true, {});
  for (size_t i = 0; i < tight.size(); ++i) {
    FittingPlans& found = fitting[tight[i]];
    take_faster(found.tight, std::move(offloading[i].tight));
    take_faster(found.safe, std::move(offloading[i].safe));
  }
  std::vector<size_t> upwards(limits.size());
  std::iota(upwards.begin(), upwards.end(), size_t{0});
  std::ranges::stable_sort(upwards, {}, [&](size_t i) { return limits[i].budget_bytes; });
  std::optional<Choice> below;
  for (const size_t i : upwards) {
    FittingPlans& found = fitting[i];
    std::vector<Choice> known = BlockOptionPlanSearch(*this, limits[i], scores_).known(kMaxOnDevice);
    if (below) known.push_back(*below);
    std::erase_if(known, [&](const Choice& choice) {
      const double worth = offloads_states(choice) ? kWorthMore : 1;
      return !limits[i].satisfied_by(score(choice)) ||
             (found.safe && score(choice).step_ms >= worth * found.safe->predicted.step_ms);
    });
    FittingPlans others;
    take_fitting(known, limits[i], name(limits[i]), scores_, others);
    if (others.safe) found.safe = std::move(others.safe);
    if (found.none()) continue;
    take_faster(plans[i], std::move(found.safe ? found.safe : found.tight));
    below = plans[i]->choice;
  }
  return plans;
}

}  // namespace memtune::planner
