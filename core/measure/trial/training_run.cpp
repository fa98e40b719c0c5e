#include "core/measure/trial/training_run.h"

#include <ATen/Context.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/layout.h"
#include "core/base/median.h"
#include "core/base/scoped_timer.h"
#include "core/engine/state/saved_states_folder.h"
#include "core/measure/profiler/loaded_torch.h"
#include "core/measure/trial/deterministic_scope.h"
#include "core/measure/trial/overlapped_state_saver.h"
#include "core/measure/trial/training_state_collector_and_loader.h"
#include "core/record/measurement/trial_measurement.h"

namespace memtune::trial {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t stop_requested = 0;

void request_stop(int /*signal*/) { stop_requested = 1; }

constexpr std::chrono::seconds kOthersEnd{10};  // to wait for other ranks of a killed memtune
constexpr std::string_view kLock = "lock", kRankLock = "lock-rank";

// Only one training at a time writes states. Each rank holds a lock. Rank 0 also waits for the locks of ranks that this
// run does not have.
FileLock lock(const state::SavedStatesFolder& folder) {
  const state::DistributedSaveRankSettings& ranks = folder.rank();
  const auto take = [&](const std::string& name) { return FileLock(folder.root() / name, folder.files(), kOthersEnd); };
  if (ranks.rank > 0) return take(std::string(kRankLock) + std::to_string(ranks.rank));
  FileLock first = take(std::string(kLock));
  for (const std::string& name : names_in(folder.root(), folder.files()))
    if (name.starts_with(kRankLock) && std::atoi(name.c_str() + kRankLock.size()) >= ranks.ranks) take(name);
  return first;
}

class TrainingRun {
 public:
  TrainingRun(const plan::ResumableTrainingRequest& request, ForwardBackwardRunner& runner, TrialFrameWriter& frames)
      : request_(request),
        runner_(runner),
        frames_(frames),
        optimizer_(runner.make_optimizer(training())),
        state_(runner, *optimizer_),
        folder_(request.folder),
        lock_((folder_.set_rank(saving_rank(request)), folder_.make(), lock(folder_))),
        saves_(request, runner, state_, folder_,
               [this](const result::SingleStateSaveRecord& save) { report_save(save); }) {
    result_.device = runner.device().name();
    result_.torch = profiler::loaded_torch();
    folder_.set_settings(plan::resume_settings(request.trial.model, training()));
  }

  result::ResumableTrainingResult run() {
    stop_requested = 0;
    std::signal(SIGTERM, request_stop);
    runner_.device().empty_cache();
    runner_.device().limit_process(training().memory_cap_bytes);
    result_.deterministic = has_deterministic_kernels(runner_);
    state_.set_written(runner_.written_memory());
    const DeterministicScope scope(result_.deterministic);  // so that a resumed run has the same bits
    at::manual_seed(training().seed);
    const bool updates_in_backward = runner_.update_in_backward(*optimizer_);
    resume();
    if (!updates_in_backward) optimizer_->make_states();
    agree_on_end();
    for (int i = 0; step() < training().steps && !ends_; ++i) run_step(i);
    result_.stopped = step() < training().steps;
    if (result_.stopped && saved_ < step()) save_at_the_end();
    saves_.look(true);
    leave_no_remains();
    result_.save_host_bytes = saves_.host_bytes();
    result_.save_prepare_ms = saves_.prepare_ms();
    summarize();
    return std::move(result_);
  }

 private:
  const plan::TrainingSettings& training() const { return request_.trial.training; }
  int64_t step() const { return static_cast<int64_t>(result_.loss.size()); }  // number of steps done

  bool is_first() const { return folder_.rank().rank == 0; }
  void await_ranks() { runner_.any_rank(false); }
  void agree_on_end() { ends_ = runner_.any_rank(stop_requested != 0); }

  // Each rank loads. After that only rank 0 changes the folder.
  void resume() {
    await_ranks();  // a barrier: all hold their locks, so no process of an earlier run changes the folder
    const std::vector<int64_t> there = folder_.steps();
    if (!request_.resume && !there.empty())
      throw UsageError("'" + folder_.root().string() + "' has saved states up to step " + std::to_string(there.back()) +
                       "; continue with --resume, or start again with another --out");
    if (request_.from || !there.empty()) {
      result_.loss = state_.load(folder_, request_.from);
      result_.first_step = saved_ = step();
    }
    for (const double other : runner_.gather_from_ranks({static_cast<double>(step())}))
      if (other != static_cast<double>(step())) throw Error("the ranks have loaded states of different steps");
    if (is_first()) leave_states_before(there);
    await_ranks();
  }

  void leave_states_before(const std::vector<int64_t>& there) {
    // Later states are of another course of the run. The newest is removed first: after an interruption, the newest
    // state is still one of them.
    for (size_t i = there.size(); i-- > 0 && there[i] > step();) folder_.remove(there[i]);
    // A run that was killed between its last save and the removal of older states left these. There may be no further
    // save.
    if (step() > 0) folder_.keep_last(request_.keep_last);
    if (training().ranks > 1) folder_.remove_remains();  // parts of them would be taken for those of a new save
  }

  // If a save failed on one rank, parts of the others may remain.
  void leave_no_remains() {
    if (training().ranks == 1) return;
    await_ranks();
    if (is_first()) folder_.remove_remains();
  }

  void run_step(int i) {
    const auto start = Clock::now();
    const bool settling = i < runner_.least_warm_up();
    if (settling) runner_.begin_warm_up(i);
    const at::Tensor loss = runner_.forward_backward();
    optimizer_->step(saves_.gate());
    const double own_loss = loss.item<double>();
    runner_.device().record(device::StreamKind::compute)->synchronize();  // saves use other streams
    if (settling) runner_.end_warm_up(i);
    result_.times_ms.push_back(ms_since(start));
    agree_on_loss(own_loss);
    report_step();
    saves_.look(false);
    if (request_.save_every == 0) return;
    if (i + 1 >= runner_.least_warm_up()) saves_.prepare(result_.loss);
    if (step() % request_.save_every == 0) save();
  }

  // Adds the mean of the ranks' losses. All ranks end if one was asked to.
  void agree_on_loss(double own) {
    const std::vector<double> all = runner_.gather_from_ranks({own, stop_requested != 0 ? 1.0 : 0.0});
    double sum = 0;
    for (size_t i = 0; i < all.size(); i += 2) {
      sum += all[i];
      ends_ |= all[i + 1] != 0;
    }
    result_.loss.push_back(sum / training().ranks);
  }

  void save() {
    saves_.save(result_.loss);
    saved_ = step();
  }

  // If there is no room for it, that is a failed save, so that the run still ends with an answer.
  void save_at_the_end() {
    try {
      save();
    } catch (const UsageError& error) {
      saves_.fail(result_.loss, error.what());
    } catch (const OutOfHostMemoryError& error) {
      saves_.fail(result_.loss, error.what());
    }
  }

  void report_step() {
    const double seconds = result_.times_ms.back() / 1e3;
    const ForwardBackwardRunner::StepWork work = runner_.work();
    char text[128];
    std::snprintf(text, sizeof text, "loss %.5g, %s, %.4g %s/s", result_.loss.back(),
                  ms_text(result_.times_ms.back()).c_str(),
                  static_cast<double>(work.tokens > 0 ? work.tokens : work.samples) / seconds,
                  work.tokens > 0 ? "tokens" : "samples");
    frames_.phase("train", static_cast<int>(step()), training().steps, text);
  }

  void report_save(const result::SingleStateSaveRecord& save) {
    result_.saves.push_back(save);
    const std::string of = "step " + std::to_string(save.step);
    frames_.phase("saved", static_cast<int>(save.step), training().steps,
                  save.error.empty() ? of + " is saved: " + format_bytes(save.bytes) + " in " + ms_text(save.durable_ms)
                                     : "the save of " + of + " failed: " + save.error);
  }

  void summarize() {
    if (result_.times_ms.empty()) return;
    result_.step_ms = median(result_.times_ms);
    const ForwardBackwardRunner::StepWork work = runner_.work();
    result_.samples_per_s = static_cast<double>(work.samples) / result_.step_ms * 1e3;
    result_.tokens_per_s = static_cast<double>(work.tokens) / result_.step_ms * 1e3;
  }

  const plan::ResumableTrainingRequest& request_;
  ForwardBackwardRunner& runner_;
  TrialFrameWriter& frames_;
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  TrainingStateCollectorAndLoader state_;
  state::SavedStatesFolder folder_;
  FileLock lock_;
  result::ResumableTrainingResult result_;
  int64_t saved_ = 0;           // the last step for which a save was begun
  bool ends_ = false;           // all ranks end before the last step
  OverlappedStateSaver saves_;  // last member: its callback writes into the result
};

}  // namespace

result::ResumableTrainingResult train(const plan::ResumableTrainingRequest& request, ForwardBackwardRunner& runner,
                                      TrialFrameWriter& frames) {
  return TrainingRun(request, runner, frames).run();
}

}  // namespace memtune::trial
