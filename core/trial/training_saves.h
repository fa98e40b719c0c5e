// The saves of a training, wired to its steps: updates wait for what has not left yet, copies for the backward where
// the link carries activations, and host memory is for activations and saves together.
//
// Thread: the one that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/config/run_request.h"
#include "core/result/training.h"
#include "core/state/saver.h"
#include "core/state/state_folder.h"
#include "core/trial/runner.h"
#include "core/trial/training_state.h"

namespace memtune::trial {

state::SavingRank saving_rank(const config::RunRequest& request);

class TrainingSaves {
 public:
  // `ended` is told of each save that has ended. The others must outlive this.
  TrainingSaves(const config::RunRequest& request, Runner& runner, const TrainingState& state,
                state::StateFolder& folder, std::function<void(const result::SavedStep&)> ended);
  ~TrainingSaves() { runner_.set_before_backward(nullptr); }
  TrainingSaves(const TrainingSaves&) = delete;
  TrainingSaves& operator=(const TrainingSaves&) = delete;

  // Of each step's update.
  optimizer::UpdateGate* gate() { return &gate_; }
  // Takes host memory, once; when activations have taken what they need. As state::Saver::prepare.
  void prepare(const std::vector<double>& losses);
  // The state after as many steps as `losses` has. What the disk refuses is told as a save that failed.
  void save(const std::vector<double>& losses);
  // It cannot even be begun: told as one that failed.
  void fail(const std::vector<double>& losses, const std::string& why);
  void look(bool wait) { saver_.look(wait); }

  int64_t host_bytes() const { return saver_.host_bytes(); }
  double prepare_ms() const { return prepare_ms_; }

 private:
  class Gate final : public optimizer::UpdateGate {
   public:
    explicit Gate(state::Saver& saver) : saver_(saver) {}
    size_t turn(const at::Tensor& written) override;
    void await(size_t turn) override { saver_.await(turn); }

   private:
    state::Saver& saver_;
  };

  int64_t host_budget_bytes_;  // 0: of what the machine has free
  int ranks_;
  Runner& runner_;
  const TrainingState& state_;
  bool prepared_ = false;
  double prepare_ms_ = 0;
  state::Saver saver_;
  Gate gate_{saver_};
};

}  // namespace memtune::trial
