#include "core/answer/result/effect.h"

#include <algorithm>
#include <optional>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::result {
namespace {

using plan::Strategy;

constexpr std::string_view kEqual = "equal to ";

bool is_baseline(const TrialMeasurement& m) { return m.strategy == "none"; }
bool counted(const TrialMeasurement& m) { return m.recomputed_bytes.has_value() || is_baseline(m); }

bool offloaded(const TrialMeasurement& m) { return m.transfer.out_bytes > 0; }
bool wrote_to_disk(const TrialMeasurement& m) { return m.transfer.disk_write_bytes > 0; }
// The op count matters too: ops may be recomputed whose outputs have no bytes of their own.
bool recomputed(const TrialMeasurement& m) { return m.recomputed_ops > 0 || m.recomputed_bytes.value_or(0) > 0; }

Strategy with_host_for_disk(const Strategy& strategy) {
  Strategy left = strategy;
  for (const plan::StrategyParameterId parameter : {plan::StrategyParameterId::inputs, plan::StrategyParameterId::tier})
    left = left.with(parameter, [&](const plan::StrategyPart& part) {
      const std::string place = part.text(parameter);
      return place == "disk" ? "host" : place;
    });
  return left;
}

// The strategy without the parts that had no effect according to the counters.
Strategy counted_part(const Strategy& strategy, const TrialMeasurement& m) {
  Strategy left = strategy;
  if (!offloaded(m))
    left = left.without_offload();
  else if (!wrote_to_disk(m))
    left = with_host_for_disk(left);
  // Offloaded checkpoint inputs have no strategy name without their checkpoint.
  const bool inputs_moved = std::ranges::any_of(left.parts(), &plan::StrategyPart::offloads_inputs);
  if (!recomputed(m) && !inputs_moved) left = left.without_recompute();
  return left;
}

// Names what has no effect; `left` is the part of `strategy` with an effect.
std::string idle_text(const Strategy& strategy, const Strategy& left, const TrialMeasurement& m) {
  const bool offloads_activations = strategy.offloads_activations() && !left.offloads_activations(),
             recomputes = strategy.recomputes() && !left.recomputes();
  if (offloads_activations && recomputes) return "nothing was offloaded, nothing was recomputed";
  if (offloads_activations) return "nothing was offloaded";
  if (recomputes) return "nothing was recomputed";
  if (strategy.uses_disk() && !left.uses_disk() && !wrote_to_disk(m)) return "nothing was written to disk";
  return "its other parts offload and recompute nothing here";
}

bool same_figures(const TrialResultRow& a, const TrialResultRow& b) {
  return worked(a) && worked(b) && same_axes(a, b) && peak(a) > 0 && peak(a) == peak(b) &&
         !a.measurement.loss.empty() && a.measurement.loss == b.measurement.loss &&
         a.measurement.transfer.out_bytes == b.measurement.transfer.out_bytes;
}

bool is_less(const Strategy& less, const Strategy& strategy) {
  return less != strategy &&
         (less.is_none() || less == strategy.without_offload() || less == strategy.without_recompute());
}

}  // namespace

void compare_effects(std::span<TrialResultRow> rows, std::span<const std::string> likes) {
  std::vector<std::optional<Strategy>> strategies;
  for (const std::string& like : likes) strategies.push_back(Strategy::of_name(like));
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t other = 0; other < rows.size(); ++other) {
      const std::optional<Strategy>&strategy = strategies[i], &less = strategies[other];
      TrialMeasurement& m = rows[i].measurement;
      if (!m.equal_to.empty() || !strategy || !less) continue;
      if (!is_less(*less, *strategy) || !same_figures(rows[i], rows[other])) continue;
      m.equal_to = rows[other].measurement.strategy;
      m.no_effect = std::string(kEqual) + m.equal_to + ": " + idle_text(*strategy, *less, m);
    }
}

std::string effective_strategy(const TrialMeasurement& m) {
  if (!m.equal_to.empty()) return m.equal_to;
  if (m.outcome != TrialOutcome::ok || is_baseline(m) || !counted(m)) return m.strategy;
  if (!offloaded(m) && !recomputed(m)) return "none";
  const std::optional<Strategy> strategy = Strategy::of_name(m.strategy);
  if (!strategy) return m.strategy;
  const Strategy left = counted_part(*strategy, m);
  return left == *strategy || left.is_none() ? m.strategy : to_string(left);
}

bool has_ineffective_part(const TrialMeasurement& m) { return effective_strategy(m) != m.strategy; }

bool had_no_effect(const TrialMeasurement& m) { return m.strategy != "none" && effective_strategy(m) == "none"; }

std::string effect_text(const TrialMeasurement& m) {
  if (!has_ineffective_part(m) || m.no_effect.starts_with(kEqual)) return m.no_effect;
  const std::string name = effective_strategy(m);
  const Strategy left = Strategy::of_name(name).value_or(Strategy());
  const std::optional<Strategy> strategy = Strategy::of_name(m.strategy);
  const std::string idle = strategy ? idle_text(*strategy, left, m) : "nothing was offloaded, nothing was recomputed";
  return std::string(kEqual) + name + ": " + idle + (m.no_effect.empty() ? "" : "; " + m.no_effect);
}

std::vector<const TrialResultRow*> choices(std::span<const TrialResultRow* const> rows) {
  struct Choice {
    const TrialResultRow* row;
    std::string strategy;
  };
  std::vector<Choice> chosen;
  for (const TrialResultRow* row : rows) {
    if (!is_eligible(row->measurement)) continue;
    const std::string strategy = effective_strategy(row->measurement);
    const auto same = std::ranges::find_if(chosen, [&](const Choice& other) {
      return other.strategy == strategy && same_axes(*other.row, *row) &&
             (has_ineffective_part(row->measurement) || has_ineffective_part(other.row->measurement));
    });
    if (same == chosen.end())
      chosen.push_back({row, strategy});
    else if (has_ineffective_part(same->row->measurement) && !has_ineffective_part(row->measurement))
      same->row = row;
  }
  std::vector<const TrialResultRow*> result;
  for (const Choice& choice : chosen) result.push_back(choice.row);
  return result;
}

std::vector<const TrialResultRow*> choices(std::span<const TrialResultRow> rows) { return choices(pointers_to(rows)); }

int64_t changed_bytes(const TrialMeasurement& m) { return m.transfer.out_bytes + m.recomputed_bytes.value_or(0); }

bool changes_less(const TrialResultRow& a, const TrialResultRow& b) {
  const TrialMeasurement &of_a = a.measurement, &of_b = b.measurement;
  if (is_base(a) || is_base(b)) return is_base(a) && !is_base(b);
  if (!a.command.empty() && !b.command.empty()) return peak(a) < peak(b);  // the bytes they change are not known
  return counted(of_a) && counted(of_b) ? changed_bytes(of_a) < changed_bytes(of_b) : peak(a) > peak(b);
}

}  // namespace memtune::result
