#include "core/measure/trial/overlapped_state_saver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/limits.h"
#include "core/base/scoped_timer.h"

namespace memtune::trial {

state::DistributedSaveRankSettings saving_rank(const plan::ResumableTrainingRequest& request) {
  const plan::TrainingSettings& training = request.trial.training;
  // Shorter than the other ranks wait for a rank that waits for parts.
  return {request.trial.envelope.rank, training.ranks, std::chrono::milliseconds(training.rank_timeout_ms / 2)};
}

OverlappedStateSaver::OverlappedStateSaver(const plan::ResumableTrainingRequest& request, ForwardBackwardRunner& runner,
                                           const TrainingStateCollectorAndLoader& state,
                                           state::SavedStatesFolder& folder,
                                           std::function<void(const result::SingleStateSaveRecord&)> ended)
    : host_budget_bytes_(request.trial.training.host_budget_bytes),
      ranks_(request.trial.training.ranks),
      runner_(runner),
      state_(state),
      saver_(runner.device(), folder, {request.save, request.keep_last, runner.offloads_activations()},
             std::move(ended)) {
  runner.set_before_backward([this] { saver_.begin_backward(); });
}

void OverlappedStateSaver::prepare(const std::vector<double>& losses) {
  if (std::exchange(prepared_, true)) return;
  const auto start = std::chrono::steady_clock::now();
  const int64_t budget = host_budget_bytes_;
  saver_.prepare(state_.bytes(losses), budget > 0 ? std::max<int64_t>(0, budget - runner_.host_bytes())
                                                  : available_memory_bytes() / 8 * 7 / ranks_);
  if (budget > 0) runner_.set_host_budget(std::max<int64_t>(1, budget - saver_.most_host_bytes()));
  prepare_ms_ = ms_since(start);
}

void OverlappedStateSaver::save(const std::vector<double>& losses) {
  runner_.finish_updates();
  prepare(losses);
  const auto start = std::chrono::steady_clock::now();
  saver_.save(static_cast<int64_t>(losses.size()), state_.parts(losses), start);
}

void OverlappedStateSaver::fail(const std::vector<double>& losses, const std::string& why) {
  saver_.fail(static_cast<int64_t>(losses.size()), why);
}

size_t OverlappedStateSaver::Gate::turn(const at::Tensor& written) { return saver_.turn(written.storage().data()); }

}  // namespace memtune::trial
