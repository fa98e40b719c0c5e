// Saves of a run, one after another: while training waits, or in a thread of its own that writes a copy while training
// goes on. The thread that trains calls; one save is on its way at most, and the next waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <future>

#include "core/result/training.h"
#include "core/state/state_folder.h"
#include "core/trial/training_state.h"

namespace memtune::trial {

class Saver {
 public:
  // `ended` is told of each save that has ended, on the thread that calls. `folder` and `state` must outlive this.
  Saver(const TrainingState& state, state::StateFolder& folder, int64_t keep_last, bool asynchronous,
        std::function<void(const result::SavedStep&)> ended)
      : state_(state), folder_(folder), keep_last_(keep_last), asynchronous_(asynchronous), ended_(std::move(ended)) {}

  // Begins with waiting for the one before. What the disk refuses is told as a save that failed.
  void save(const std::vector<double>& losses);
  // Tells of the save on its way if it has ended; `wait`: once it has.
  void look(bool wait);

 private:
  using Clock = std::chrono::steady_clock;

  result::SavedStep write(const Snapshot& snapshot, Clock::time_point start);

  const TrainingState& state_;
  state::StateFolder& folder_;
  int64_t keep_last_;
  bool asynchronous_;
  std::function<void(const result::SavedStep&)> ended_;
  double blocked_ms_ = 0;                      // by the one that is on its way
  std::future<result::SavedStep> on_its_way_;  // its end is waited for when this ends
};

}  // namespace memtune::trial
