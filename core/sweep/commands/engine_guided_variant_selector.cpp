#include "core/sweep/commands/engine_guided_variant_selector.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/measure/process/interrupt.h"

namespace memtune::sweep {
namespace {

using result::TrialMeasurement;
using result::TrialOutcome;

constexpr size_t kMaxSettings = 3;  // besides the command as it is
constexpr int kMaxSmaller = 2;      // if none of them fit the budget
constexpr size_t kMaxPlans = 3;
constexpr double kSameWork = 0.02;

// The strategy of a variant; "none" for a loop without a trainer.
std::string like(const CommandVariant& variant, const CommandSweepSettingsAndVariants& sweep) {
  return sweep.trainer.empty() ? "none" : variant.like;
}

// The variant that plans run with: one without checkpointing, so that the plan alone decides. The user's own if
// possible.
const CommandVariant& base_of_plans(const CommandSweepSettingsAndVariants& sweep) {
  for (const CommandVariant& variant : sweep.variants)
    if (!variant.planned && like(variant, sweep) == "none") return variant;
  return sweep.variants.front();
}

const TrialMeasurement* measurement_of(std::span<const SweepTrialAndMeasurement> tried, const std::string& name) {
  const auto found =
      std::ranges::find_if(tried, [&](const SweepTrialAndMeasurement& each) { return each.spec.strategy == name; });
  return found == tried.end() ? nullptr : &found->measurement;
}

bool is_cpu(const std::string& device) { return device.starts_with("CPU"); }

bool offloads_values(const std::string& strategy) {
  return strategy.find("offload") != std::string::npos || strategy.find("inputs=host") != std::string::npos;
}

}  // namespace

bool is_about_strategies(const CommandVariant& variant, std::span<const CommandVariant> variants) {
  const auto says_nothing = [&](const std::string& part) {
    const auto alone = std::ranges::find(variants, part, &CommandVariant::name);
    return alone != variants.end() && alone->like.empty();
  };
  return !variant.planned && !variant.like.empty() && std::ranges::none_of(variant.parts, says_nothing);
}

EngineGuidedVariantSelector::EngineGuidedVariantSelector(TrainingCommandModelEngineTrialRunner& native,
                                                         std::vector<std::string> strategies, int64_t budget_bytes,
                                                         bool asked, bool dry_run)
    : native_(native),
      strategies_(std::move(strategies)),
      budget_bytes_(budget_bytes),
      asked_(asked),
      dry_run_(dry_run) {}

std::optional<std::vector<std::string>> EngineGuidedVariantSelector::next(
    std::span<const SweepTrialAndMeasurement> tried, CommandSweepSettingsAndVariants& sweep) {
  if (all_) return {};
  if (tried.empty()) return begin(sweep);
  return tried.size() == 1 ? choose(tried, sweep) : correct(tried, sweep);
}

std::optional<EngineGuidedVariantSelector::Names> EngineGuidedVariantSelector::begin(
    CommandSweepSettingsAndVariants& sweep) {
  sweep.native = "native";
  if (dry_run_) return Names{sweep.variants.front().name};
  std::string why;
  try {
    if (!native_.run_first(like(sweep.variants.front(), sweep))) return Names{};
    why = native_.failure();
    if (why.starts_with(to_string(TrialOutcome::device_oom)) || why.starts_with(to_string(TrialOutcome::host_oom)))
      why = "";
  } catch (const Error& error) {
    if (asked_) throw;
    why = error.what();
  }
  if (why.empty()) return Names{sweep.variants.front().name};
  if (asked_) throw UsageError("memtune's own engines do not run the model, so there is no plan: " + why);
  all_ = true;
  sweep.native = "";
  sweep.notes.push_back(
      "memtune's own engines do not run the model, so nothing is planned and all settings are tried: " + why);
  return {};
}

EngineGuidedVariantSelector::Names EngineGuidedVariantSelector::choose(std::span<const SweepTrialAndMeasurement> tried,
                                                                       CommandSweepSettingsAndVariants& sweep) {
  const TrialMeasurement& own = tried.front().measurement;
  if (!result::usable(own) && !ended_out_of_memory(own)) {
    sweep.no_plan = "the unchanged command did not work, so nothing was planned";
    return {};
  }
  const std::string where = native_.device();
  if (!own.device.empty() && !where.empty() && is_cpu(own.device) != is_cpu(where)) {
    sweep.no_plan = "the command trains on " + own.device + " and memtune's own trials ran on " + where +
                    ", so nothing was planned: choose the device with --device";
    return {};
  }
  measure_difference(own, sweep);
  if (!run_native(sweep)) return {};
  rank_settings(sweep);
  add_skipped_notes(sweep);
  Names names;
  take_fitting(kMaxSettings, names);
  add_plan(sweep, names);
  return names.empty() ? correct(tried, sweep) : names;
}

// On a CPU offloaded tensors stay in the process whose memory is measured, so plans may use 1 byte of host memory.
void EngineGuidedVariantSelector::measure_difference(const TrialMeasurement& own,
                                                     CommandSweepSettingsAndVariants& sweep) {
  host_bytes_ = is_cpu(own.device.empty() ? native_.device() : own.device) ? 1 : 0;
  if (!result::usable(own)) return;
  const auto same = native_.step(like(sweep.variants.front(), sweep));
  if (same && budget_bytes_ > 0) {
    more_bytes_ = required_bytes(own) - same->peak_bytes;
    sweep.notes.push_back("the command holds " + format_bytes(std::abs(more_bytes_)) +
                          (more_bytes_ < 0 ? " less" : " more") +
                          " at its peak than memtune's own trial of the same (" + like(sweep.variants.front(), sweep) +
                          "): plans are made for " + format_bytes(std::max<int64_t>(0, native_budget())));
  }
  const double tokens = native_.tokens();
  const double own_tokens = result::amount(own, result::WorkUnit::token);
  if (tokens > 0 && own_tokens > 0 && std::abs(own_tokens / tokens - 1) > kSameWork)
    sweep.notes.push_back("a step of the command has " + std::to_string(std::llround(own_tokens)) +
                          " tokens, a step of memtune's own trials " + std::to_string(std::llround(tokens)) +
                          ": set --batch, --seq and --accumulate as the command has them");
}

bool EngineGuidedVariantSelector::run_native(const CommandSweepSettingsAndVariants& sweep) {
  if (budget_bytes_ > 0 && native_budget() <= 0) return true;  // no budget is left
  Names strategies;
  for (const CommandVariant& variant : sweep.variants)
    if (is_about_strategies(variant, sweep.variants)) strategies.push_back(variant.like);
  if (budget_bytes_ <= 0) strategies.insert(strategies.end(), strategies_.begin(), strategies_.end());
  return native_.run(strategies, native_budget(), host_bytes_) && !process::interrupted();
}

// Keeps one variant per strategy: first those that fit the budget, by time, then the others, by memory.
void EngineGuidedVariantSelector::rank_settings(const CommandSweepSettingsAndVariants& sweep) {
  Names known = {like(sweep.variants.front(), sweep)};
  if (const auto own = native_.step(known.front())) least_bytes_ = own->peak_bytes;
  for (const CommandVariant& variant : sweep.variants) {
    if (host_bytes_ > 0 && offloads_values(variant.like)) continue;
    if (!is_about_strategies(variant, sweep.variants) || std::ranges::count(known, variant.like) > 0) continue;
    known.push_back(variant.like);
    if (const auto step = native_.step(variant.like)) later_.push_back({variant.name, *step});
  }
  std::ranges::stable_sort(later_, {}, [&](const Setting& each) {
    const bool breaks = !keeps(each.step);
    return std::pair(breaks, breaks ? static_cast<double>(each.step.peak_bytes) : each.step.step_ms);
  });
}

void EngineGuidedVariantSelector::take(std::vector<Setting>::iterator setting, Names& to) {
  least_bytes_ = std::min(least_bytes_, setting->step.peak_bytes);
  to.push_back(setting->name);
  later_.erase(setting);
}

// Takes the best settings that fit the remaining budget, in order.
void EngineGuidedVariantSelector::take_fitting(size_t most, Names& to) {
  for (size_t i = 0; i < most && !later_.empty() && keeps(later_.front().step); ++i) take(later_.begin(), to);
}

bool EngineGuidedVariantSelector::keeps(const EngineMeasuredOrSimulatedStepTimeAndPeak& step) const {
  return budget_bytes_ <= 0 || step.peak_bytes <= budget_bytes_ - more_bytes_;
}

// A setting with a larger own peak than one that exceeded the budget would exceed it too.
void EngineGuidedVariantSelector::take_smaller(Names& to) {
  const auto least = std::ranges::min_element(later_, {}, [](const Setting& each) { return each.step.peak_bytes; });
  if (least != later_.end() && least->step.peak_bytes < least_bytes_) take(least, to);
}

void EngineGuidedVariantSelector::add_skipped_notes(CommandSweepSettingsAndVariants& sweep) const {
  Names unknown;
  for (const CommandVariant& variant : sweep.variants)
    if (!variant.planned && &variant != &sweep.variants.front() && variant.parts.empty() && variant.like.empty())
      unknown.push_back(variant.name);
  sweep.skipped.clear();
  if (!unknown.empty())
    sweep.notes.push_back("not tried, because memtune's own trials do not predict them (--all-settings runs them): " +
                          join(unknown, ", "));
}

void EngineGuidedVariantSelector::add_plan(CommandSweepSettingsAndVariants& sweep, Names& to) {
  if (budget_bytes_ > 0 && native_budget() <= 0) {
    sweep.no_plan =
        "memory of the command outside of the plan leaves nothing of " + format_bytes(budget_bytes_) + " for a plan";
    return;
  }
  const auto has_keys = [&](const std::string& strategy) {
    return std::ranges::any_of(sweep.variants, [&](const CommandVariant& each) { return each.like == strategy; });
  };
  PythonPlanOrFailureReason plan = native_.plan(has_keys);
  if (plan.text.empty()) {
    sweep.no_plan = plan.why_none;
    return;
  }
  CommandVariant variant = base_of_plans(sweep);
  const std::string base = variant.name;
  variant.name = budget_bytes_ > 0 ? "plan:" + format_bytes(budget_bytes_) : "plan:" + plan.strategy;
  if (!plans_.names.empty()) variant.name += "-" + std::to_string(plans_.names.size() + 1);
  variant.planned = true;
  variant.plan_text = std::move(plan.text);
  plans_.last_own_bytes = plan.peak_bytes;
  variant.parts.clear();
  variant.like = "";
  for (const std::string& note : plan.notes) sweep.notes.push_back(variant.name + ": " + note);
  if (base != sweep.variants.front().name && plans_.names.empty())
    sweep.notes.push_back(variant.name + " is run with the settings of " + base +
                          ", because the plan replaces your own checkpointing and offloading");
  plans_.names.push_back(variant.name);
  to.push_back(variant.name);
  sweep.variants.push_back(std::move(variant));
}

bool EngineGuidedVariantSelector::fits(const TrialMeasurement& m) const {
  return result::usable(m) && (budget_bytes_ <= 0 || required_bytes(m) <= budget_bytes_);
}

EngineGuidedVariantSelector::Names EngineGuidedVariantSelector::correct(std::span<const SweepTrialAndMeasurement> tried,
                                                                        CommandSweepSettingsAndVariants& sweep) {
  Names names;
  const auto is_plan = [&](const SweepTrialAndMeasurement& each) {
    return std::ranges::count(plans_.names, each.spec.strategy) > 0;
  };
  const bool kept = std::ranges::any_of(
      tried, [&](const SweepTrialAndMeasurement& each) { return !is_plan(each) && fits(each.measurement); });
  const auto failed = static_cast<size_t>(std::ranges::count_if(tried, [&](const SweepTrialAndMeasurement& each) {
    return !is_plan(each) && !result::usable(each.measurement) && !ended_out_of_memory(each.measurement) &&
           each.measurement.outcome != TrialOutcome::skipped;  // its successor would be skipped too
  }));
  take_fitting(failed - std::exchange(failed_, failed), names);
  if (!kept && names.empty() && smaller_++ < kMaxSmaller) take_smaller(names);
  // If own trials needed no plan, the variant without checkpointing counts as the plan that exceeded the budget.
  const auto everything = native_.step("none");
  const bool none_needed = plans_.names.empty() && everything && everything->peak_bytes <= native_budget();
  const TrialMeasurement* last = plans_.names.empty()
                                     ? none_needed ? measurement_of(tried, base_of_plans(sweep).name) : nullptr
                                     : measurement_of(tried, plans_.names.back());
  if (!last || budget_bytes_ <= 0 || plans_.names.size() >= kMaxPlans || fits(*last)) return names;
  if (!result::usable(*last) && !ended_out_of_memory(*last)) return names;
  // After an out-of-memory error the excess is unknown, so it is estimated. A plan may need less than it was allowed;
  // the next one needs less than that, or it would be the same.
  if (!plans_.names.empty() && plans_.last_own_bytes > 0)
    broken_bytes_ += std::max<int64_t>(0, native_budget() - plans_.last_own_bytes);
  broken_bytes_ += result::usable(*last) ? required_bytes(*last) - budget_bytes_ : native_budget() / 10;
  if (native_budget() <= 0 || !run_native(sweep)) return names;
  add_plan(sweep, names);
  if (!plans_.names.empty()) sweep.no_plan = "";  // now there is a plan
  return names;
}

}  // namespace memtune::sweep
