#include "core/answer/result/merge_ranks.h"

#include <algorithm>

namespace memtune::result {
namespace {

RankMeasurement share_of(const TrialMeasurement& measurement, size_t rank) {
  RankMeasurement share;
  share.rank = static_cast<int64_t>(rank);
  share.step_ms = measurement.step_ms;
  share.peak_bytes = measurement.peak_bytes;
  share.optimizer_ms = measurement.optimizer_ms;
  share.exposed_communication_ms = measurement.communication.exposed_ms;
  share.loss = measurement.loss;
  return share;
}

void take_highest(const TrialMeasurement& rank, TrialMeasurement& to) {
  for (const auto peak : {&PeakMemory::allocated, &PeakMemory::reserved, &PeakMemory::device})
    to.peak_bytes.*peak = std::max(to.peak_bytes.*peak, rank.peak_bytes.*peak);
  for (const auto bytes : {&TrialMeasurement::floor_bytes, &TrialMeasurement::host_bytes,
                           &TrialMeasurement::host_peak_bytes, &TrialMeasurement::disk_peak_bytes})
    to.*bytes = std::max(to.*bytes, rank.*bytes);
  for (const auto ms : {&CommunicationStats::exposed_ms, &CommunicationStats::collectives_ms})
    to.communication.*ms = std::max(to.communication.*ms, rank.communication.*ms);
  to.transfer.exposed_ms = std::max(to.transfer.exposed_ms, rank.transfer.exposed_ms);
  to.transfer.hidden = std::min(to.transfer.hidden, rank.transfer.hidden);
  to.noisy |= rank.noisy;
}

void take_gradients(const TrialMeasurement& rank, size_t number, TrialMeasurement& to) {
  if (rank.gradients.compared && !rank.gradients.equal &&
      (to.gradients.equal || rank.gradients.max_abs_difference > to.gradients.max_abs_difference))
    to.gradients = rank.gradients;
  if (rank.outcome == TrialOutcome::ok && to.reason.empty()) to.reason = rank.reason;
  if (to.outcome != TrialOutcome::ok || rank.outcome == TrialOutcome::ok) return;
  to.outcome = rank.outcome;
  to.reason = "rank " + std::to_string(number) + ": " + rank.reason;
}

// Merges the saves of one more rank.
void add_saves(const std::vector<SingleStateSaveRecord>& saves, size_t rank, std::vector<SingleStateSaveRecord>& to) {
  for (const SingleStateSaveRecord& save : saves) {
    const auto same = std::ranges::find(to, save.step, &SingleStateSaveRecord::step);
    if (same == to.end()) continue;
    same->blocked_ms = std::max(same->blocked_ms, save.blocked_ms);
    same->durable_ms = std::max(same->durable_ms, save.durable_ms);
    same->bytes += save.bytes;
    if (same->error.empty() && !save.error.empty()) same->error = "rank " + std::to_string(rank) + ": " + save.error;
  }
}

std::vector<double> mean_losses(std::span<const TrialMeasurement> ranks) {
  std::vector<double> means;
  for (size_t i = 0; i < ranks.front().loss.size(); ++i) {
    double sum = 0;
    for (const TrialMeasurement& rank : ranks) sum += i < rank.loss.size() ? rank.loss[i] : 0;
    means.push_back(sum / static_cast<double>(ranks.size()));
  }
  return means;
}

}  // namespace

TrialMeasurement merge_ranks(std::span<const TrialMeasurement> ranks) {
  TrialMeasurement all = ranks.front();
  if (ranks.size() == 1) return all;
  all.outcome = TrialOutcome::ok;
  if (ranks.front().outcome != TrialOutcome::ok) all.reason.clear();
  const TrialMeasurement& slowest =
      *std::ranges::max_element(ranks, {}, [](const TrialMeasurement& rank) { return rank.step_ms.median; });
  all.step_ms = slowest.step_ms;
  all.samples_per_s = all.tokens_per_s = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const double slower = slowest.step_ms.median > 0 ? ranks[i].step_ms.median / slowest.step_ms.median : 0;
    all.samples_per_s += ranks[i].samples_per_s * slower;
    all.tokens_per_s += ranks[i].tokens_per_s * slower;
    take_highest(ranks[i], all);
    take_gradients(ranks[i], i, all);
    all.ranks.push_back(share_of(ranks[i], i));
  }
  all.loss = mean_losses(ranks);
  return all;
}

ResumableTrainingResult merge_ranks(std::span<const ResumableTrainingResult> ranks) {
  ResumableTrainingResult all = ranks.front();
  for (const ResumableTrainingResult& rank : ranks) all.step_ms = std::max(all.step_ms, rank.step_ms);
  all.samples_per_s = all.tokens_per_s = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const ResumableTrainingResult& rank = ranks[i];
    const double slower = all.step_ms > 0 ? rank.step_ms / all.step_ms : 0;
    all.samples_per_s += rank.samples_per_s * slower;
    all.tokens_per_s += rank.tokens_per_s * slower;
    all.save_host_bytes = std::max(all.save_host_bytes, rank.save_host_bytes);
    all.save_prepare_ms = std::max(all.save_prepare_ms, rank.save_prepare_ms);
    all.deterministic &= rank.deterministic;
    for (size_t step = 0; step < std::min(all.times_ms.size(), rank.times_ms.size()); ++step)
      all.times_ms[step] = std::max(all.times_ms[step], rank.times_ms[step]);
    if (i > 0) add_saves(rank.saves, i, all.saves);
  }
  return all;
}

StateSaveModeMeasurement merge_ranks(std::span<const StateSaveModeMeasurement> ranks) {
  StateSaveModeMeasurement all = ranks.front();
  for (size_t i = 1; i < ranks.size(); ++i) {
    const StateSaveModeMeasurement& rank = ranks[i];
    for (const auto ms :
         {&StateSaveModeMeasurement::first_blocked_ms, &StateSaveModeMeasurement::first_durable_ms,
          &StateSaveModeMeasurement::blocked_ms, &StateSaveModeMeasurement::most_blocked_ms,
          &StateSaveModeMeasurement::durable_ms, &StateSaveModeMeasurement::total_ms,
          &StateSaveModeMeasurement::step_ms, &StateSaveModeMeasurement::slowed_ms, &StateSaveModeMeasurement::load_ms})
      all.*ms = std::max(all.*ms, rank.*ms);
    all.bytes += rank.bytes;
    all.host_bytes = std::max(all.host_bytes, rank.host_bytes);
    all.steps_with_save = std::min(all.steps_with_save, rank.steps_with_save);
    if (!rank.slowdown) all.no_slowdown = rank.no_slowdown;
    all.slowdown =
        all.slowdown && rank.slowdown ? std::optional(std::max(*all.slowdown, *rank.slowdown)) : std::nullopt;
    if (all.reason.empty() && !rank.reason.empty()) {  // the others ended because of it
      all.outcome = rank.outcome;
      all.reason = "rank " + std::to_string(i) + ": " + rank.reason;
    }
  }
  return all;
}

}  // namespace memtune::result
