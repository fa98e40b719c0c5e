#include "core/measure/attach/process_records_by_rank.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/bounds.h"
#include "core/base/median.h"
#include "core/base/text.h"
#include "core/measure/attach/memory_growth.h"
#include "core/measure/attach/step_period.h"

namespace memtune::attach {
namespace {

using result::TrialMeasurement;

// Step times by step number. Steps that include a save count only if there are no others; if steps have a period, they
// count without the save.
std::map<int64_t, double> times_of(const TrainingProcessRecords& rank, MeasurementPhase phase) {
  std::map<int64_t, double> alone, all;
  for (const StepRecord& step : rank.steps) {
    if (step.phase != phase || !step.ms) continue;
    all[step.number] = rank.period ? *step.ms - step.save_ms : *step.ms;
    if (step.save_ms == 0) alone[step.number] = *step.ms;
  }
  return alone.empty() || rank.period ? all : alone;
}

std::vector<double> values_of(const std::map<int64_t, double>& times) {
  std::vector<double> values;
  for (const auto& [number, ms] : times) values.push_back(ms);
  return values;
}

// For each step that all ranks took, the time of the slowest rank.
std::vector<double> slowest_times(const ProcessRecordsByRank& team, MeasurementPhase phase) {
  std::map<int64_t, double> slowest = times_of(*team.ranks.front(), phase);
  for (const TrainingProcessRecords* rank : team.ranks) {
    const std::map<int64_t, double> times = times_of(*rank, phase);
    std::erase_if(slowest, [&](const auto& step) { return !times.contains(step.first); });
    for (auto& [number, ms] : slowest) ms = std::max(ms, times.at(number));
  }
  return values_of(slowest);
}

int64_t steps_of_a_sample(const ProcessRecordsByRank& team, size_t count) {
  const std::optional<StepPeriodicityRecord>& period = team.ranks.front()->period;
  return period ? steps_of_a_sample(*period, static_cast<int64_t>(count)) : 1;
}

double optimizer_ms(const TrainingProcessRecords& rank) {
  std::vector<double> times;
  for (const StepRecord& step : rank.steps)
    if (step.phase == MeasurementPhase::measured && step.optimizer_ms && !step.skipped)
      times.push_back(*step.optimizer_ms);
  return median(std::move(times));
}

// Of all measured steps, so that the longer ones of a period have their part.
std::optional<result::TrainingPhaseTimeShares> time_shares_of(const TrainingProcessRecords& rank) {
  result::TrainingPhaseTimeShares sums;
  double total = 0;
  for (const StepRecord& step : rank.steps) {
    if (step.phase != MeasurementPhase::measured || !step.parts_ms) continue;
    for (const result::TimeShareNameAndMemberPointer& kind : result::kTimeKinds) {
      sums.*kind.share += (*step.parts_ms).*kind.share;
      total += (*step.parts_ms).*kind.share;
    }
    sums.loader_workers = std::max(sums.loader_workers, step.parts_ms->loader_workers);
    sums.evaluates |= step.parts_ms->evaluates;
    sums.unfused |= step.parts_ms->unfused;
    sums.trainer = step.parts_ms->trainer;
  }
  if (total <= 0) return std::nullopt;
  for (const result::TimeShareNameAndMemberPointer& kind : result::kTimeKinds) sums.*kind.share /= total;
  return sums;
}

result::PeakMemory peak_of(const TrainingProcessRecords& rank) {
  result::PeakMemory peak;
  for (const StepRecord& step : rank.steps) {
    if (step.phase > MeasurementPhase::measured) continue;
    peak.allocated = std::max(peak.allocated, step.allocated_bytes);
    peak.reserved = std::max(peak.reserved, step.reserved_bytes);
    peak.device = std::max(peak.device, step.device_bytes);
  }
  return peak;
}

// The loss whose gradient the step applies: the sum over its micro-batches.
double loss_of(const StepRecord& step) {
  double sum = 0;
  for (const double loss : step.losses) sum += loss;
  return sum;
}

std::vector<double> losses_of(const TrainingProcessRecords& rank) {
  std::vector<double> losses;
  for (const StepRecord& step : rank.steps)
    if (!step.losses.empty()) losses.push_back(loss_of(step));
  return losses;
}

result::RankMeasurement share_of(const TrainingProcessRecords& rank, int64_t steps) {
  return {rank.rank, result::summarize(means_of(values_of(times_of(rank, MeasurementPhase::measured)), steps)),
          peak_of(rank), optimizer_ms(rank), losses_of(rank)};
}

// Of each step the mean over its backwards.
std::vector<double> unscaled_losses_of(const TrainingProcessRecords& rank) {
  std::vector<double> losses;
  for (const StepRecord& step : rank.steps) {
    const std::vector<double>& parts = step.unscaled.empty() ? step.losses : step.unscaled;
    if (!parts.empty()) losses.push_back(std::accumulate(parts.begin(), parts.end(), 0.0) / double(parts.size()));
  }
  const bool scaled = std::ranges::any_of(rank.steps, [](const StepRecord& step) { return !step.unscaled.empty(); });
  return scaled ? losses : std::vector<double>();
}

void fill_losses(const TrainingProcessRecords& rank, TrialMeasurement& to) {
  to.loss = losses_of(rank);
  to.loss_unscaled = unscaled_losses_of(rank);
  to.loss_per_backward.clear();
  for (const StepRecord& step : rank.steps)
    if (!step.losses.empty()) to.loss_per_backward.push_back(step.losses);
}

std::string processor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  return "CPU (" + std::to_string(cores) + (cores == 1 ? " core)" : " cores)");
}

std::string device_of(const ProcessRecordsByRank& team) {
  if (!team.ranks.front()->cuda) return processor();
  const std::string count = team.ranks.size() > 1 ? std::to_string(team.ranks.size()) + " × " : "";
  return count + team.ranks.front()->device;
}

}  // namespace

ProcessRecordsByRank rank_records_of(std::span<const TrainingProcessRecords> processes) {
  ProcessRecordsByRank team;
  for (const TrainingProcessRecords& process : processes) {
    if (process.steps.empty()) continue;
    const auto same = std::ranges::find(team.ranks, process.rank, &TrainingProcessRecords::rank);
    if (same == team.ranks.end()) {
      team.ranks.push_back(&process);
      continue;
    }
    ++team.ignored;
    if (process.done && !(*same)->done) *same = &process;
  }
  std::ranges::sort(team.ranks, {}, &TrainingProcessRecords::rank);
  return team;
}

void fill_measurement(const ProcessRecordsByRank& team, TrialMeasurement& to) {
  if (team.ranks.empty()) return;
  const std::vector<double> times = slowest_times(team, MeasurementPhase::measured);
  const int64_t steps = steps_of_a_sample(team, times.size());
  to.step_ms = result::summarize(means_of(times, steps));
  if (steps > 1) to.period = {steps, median(times), std::ranges::max(times)};
  to.noisy = result::is_noisy(to.step_ms);
  for (const TrainingProcessRecords* rank : team.ranks) {
    const result::RankMeasurement share = share_of(*rank, steps);
    to.peak_bytes.allocated = std::max(to.peak_bytes.allocated, share.peak_bytes.allocated);
    to.peak_bytes.reserved = std::max(to.peak_bytes.reserved, share.peak_bytes.reserved);
    to.peak_bytes.device = std::max(to.peak_bytes.device, share.peak_bytes.device);
    to.optimizer_ms = std::max(to.optimizer_ms, share.optimizer_ms);
    if (team.ranks.size() > 1) to.ranks.push_back(share);
    to.allocator_retries = std::max(to.allocator_retries, allocator_retries(*rank));
    if (!rank->steps.empty()) to.allocator_segments = std::max(to.allocator_segments, rank->steps.back().segments);
    to.trained_tensors = std::max(to.trained_tensors, rank->gradients.trained);
    to.tensors_without_gradient = std::max(to.tensors_without_gradient, rank->gradients.without);
  }
  if (const result::MemoryGrowth growth = growth_of(*team.ranks.front()); growth.steps > 0) to.growth = growth;
  fill_losses(*team.ranks.front(), to);
  to.time_shares = time_shares_of(slowest_rank(team));
  to.device = device_of(team);
  to.dtype = team.ranks.front()->dtype;
  const double traced_ms = median(slowest_times(team, MeasurementPhase::traced));
  if (traced_ms > 0 && to.step_ms.median > 0 && steps == 1) to.profiler_overhead = traced_ms / median(times) - 1;
}

void add_notes(const ProcessRecordsByRank& team, std::vector<std::string>& notes) {
  if (team.ranks.empty()) return;
  const TrainingProcessRecords& rank = *team.ranks.front();
  const size_t measured = times_of(rank, MeasurementPhase::measured).size();
  std::vector<std::string> texts = {longest_batch_text(rank), fragmentation_text(rank)};
  if (!time_shares_of(rank))
    texts.insert(texts.begin(), waiting_text(rank));  // the shares say it, by the device's time
  if (rank.period && measured > 0) texts.push_back(period_text(rank, steps_of_a_sample(team, measured)));
  if (const ParametersWithoutGradientRecord& found = rank.gradients; found.without > 0)
    texts.push_back(std::to_string(found.without) + " of " + std::to_string(found.trained) +
                    " trained tensors have no gradient at their first update: " + join(found.names, ", ") +
                    (found.without > static_cast<int64_t>(found.names.size()) ? ", ..." : ""));
  std::ranges::copy_if(texts, std::back_inserter(notes), [](const std::string& text) { return !text.empty(); });
}

const TrainingProcessRecords& slowest_rank(const ProcessRecordsByRank& team) {
  const auto time = [](const TrainingProcessRecords* rank) {
    return median(values_of(times_of(*rank, MeasurementPhase::measured)));
  };
  return **std::ranges::max_element(team.ranks, {}, time);
}

std::vector<result::StateSaveModeMeasurement> save_figures(const ProcessRecordsByRank& team,
                                                           const TrialMeasurement& measurement) {
  if (team.ranks.empty() || team.ranks.front()->saves.empty()) return {};
  std::map<int64_t, StateSaveRecord> states;  // files of one step are one state
  for (const StateSaveRecord& save : team.ranks.front()->saves) {
    states[save.step].ms += save.ms;
    states[save.step].bytes = std::min(kMaxBytes, states[save.step].bytes + save.bytes);
  }
  result::StateSaveModeMeasurement figures;
  figures.mode = "own";
  figures.saves = static_cast<int64_t>(states.size());
  figures.first_blocked_ms = states.begin()->second.ms;
  std::vector<double> blocked;
  for (const auto& [step, state] : states) {
    blocked.push_back(state.ms);
    figures.bytes = std::max(figures.bytes, state.bytes);
  }
  figures.blocked_ms = median(blocked);
  figures.most_blocked_ms = *std::ranges::max_element(blocked);
  figures.step_ms = measurement.step_ms.median;
  figures.no_slowdown = "the command's own saves are seen, not what they do to later steps";
  return {figures};
}

}  // namespace memtune::attach
