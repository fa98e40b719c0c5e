#include "core/measure/trial/save_trial.h"

#include <ATen/Context.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/base/error.h"
#include "core/base/scoped_timer.h"
#include "core/engine/state/saved_states_folder.h"
#include "core/measure/trial/overlapped_state_saver.h"
#include "core/measure/trial/training_state_collector_and_loader.h"
#include "core/model/program/first_line.h"

namespace memtune::trial {
namespace {

using Clock = std::chrono::steady_clock;
using result::TrialOutcome;

constexpr int kStepsAfter = 2;  // after each save

// A failed save has only a text, from which the outcome is derived.
TrialOutcome outcome_of(const std::string& error) {
  for (const char* full : {"No space left on device", "Disk quota exceeded", "(ulimit -f)"})
    if (error.find(full) != std::string::npos) return TrialOutcome::disk_full;
  return TrialOutcome::disk_error;
}

class SaveTrial {
 public:
  SaveTrial(const plan::ResumableTrainingRequest& request, ForwardBackwardRunner& runner, TrialFrameWriter& frames)
      : request_(request),
        runner_(runner),
        frames_(frames),
        optimizer_(runner.make_optimizer(training())),
        state_(runner, *optimizer_),
        folder_(request.folder),
        saving_(request, runner, state_, folder_,
                [this](const result::SingleStateSaveRecord& save) { ended_ = save; }) {
    result_.mode = request.save;
  }

  result::StateSaveModeMeasurement run() {
    try {
      folder_.set_rank(saving_rank(request_));
      folder_.make();
      runner_.device().empty_cache();
      runner_.device().limit_process(training().memory_cap_bytes);
      state_.set_written(runner_.written_memory());
      if (!runner_.update_in_backward(*optimizer_)) optimizer_->make_states();
      at::manual_seed(training().seed);
      warm_up();
      saving_.prepare(losses_);
      for (int i = 0; i < training().steps; ++i) steps_alone_ms_.push_back(step("measure", i + 1, training().steps));
      for (int64_t i = 0; i < request_.saves && result_.outcome == TrialOutcome::ok; ++i) measure_save(i);
      if (result_.outcome == TrialOutcome::ok) load();
    } catch (const c10::OutOfMemoryError& error) {
      result_.outcome = TrialOutcome::device_oom;
      result_.reason = "out of device memory: " + program::first_line(error);
    }
    result_.host_bytes = saving_.host_bytes();
    if (!saves_.empty()) summarize(saves_, steps_alone_ms_, result_);
    return std::move(result_);
  }

 private:
  const plan::TrainingSettings& training() const { return request_.trial.training; }

  void warm_up() {
    const int steps = std::max(training().warmup, runner_.least_warm_up());
    for (int i = 0; i < steps; ++i) {
      runner_.begin_warm_up(i);
      step("warmup", i + 1, steps);
      runner_.end_warm_up(i);
    }
  }

  double step(const char* phase, int number, int steps) {
    frames_.phase(phase, number, steps);
    const auto start = Clock::now();
    const at::Tensor loss = runner_.forward_backward();
    optimizer_->step(saving_.gate());
    losses_.push_back(loss.item<double>());
    runner_.device().record(device::StreamKind::compute)->synchronize();  // saves use other streams
    return ms_since(start);
  }

  void measure_save(int64_t i) {
    const auto step_of_save = [&] { return step("saving", static_cast<int>(i) + 1, static_cast<int>(request_.saves)); };
    ended_.reset();
    const auto start = Clock::now();
    saving_.save(losses_);
    const double call_ms = ms_since(start);
    result::StateSaveWithConcurrentStepTimes save;
    while (runner_.any_rank(!ended_)) {
      save.steps_ms.push_back(step_of_save());
      saving_.look(false);
    }
    save.total_ms = ms_since(start);
    if (runner_.any_rank(!ended_->error.empty())) {  // only the failed rank has the reason
      result_.outcome = outcome_of(ended_->error);
      result_.reason = ended_->error;
      return;
    }
    save.blocked_ms = ended_->blocked_ms + (i == 0 ? saving_.prepare_ms() : 0);
    save.within_steps_ms = std::max(0.0, ended_->blocked_ms - call_ms);
    save.durable_ms = ended_->durable_ms;
    save.bytes = ended_->bytes;
    saves_.push_back(std::move(save));
    for (int after = 0; after < kStepsAfter; ++after) steps_alone_ms_.push_back(step_of_save());
  }

  void load() {
    runner_.any_rank(false);  // a barrier: rank 0 may still be writing it
    const auto start = Clock::now();
    state_.load(folder_, {});
    runner_.device().synchronize();
    result_.load_ms = ms_since(start);
  }

  const plan::ResumableTrainingRequest& request_;
  ForwardBackwardRunner& runner_;
  TrialFrameWriter& frames_;
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  TrainingStateCollectorAndLoader state_;
  state::SavedStatesFolder folder_;
  result::StateSaveModeMeasurement result_;
  std::vector<double> losses_, steps_alone_ms_;
  std::vector<result::StateSaveWithConcurrentStepTimes> saves_;
  std::optional<result::SingleStateSaveRecord> ended_;  // set when the current save has ended
  OverlappedStateSaver saving_;                         // last member: destroyed first, which waits for its saves
};

}  // namespace

result::StateSaveModeMeasurement measure_saves(const plan::ResumableTrainingRequest& request,
                                               ForwardBackwardRunner& runner, TrialFrameWriter& frames) {
  return SaveTrial(request, runner, frames).run();
}

}  // namespace memtune::trial
