// Connects the saves of a training with its steps. Updates wait for memory that is not copied yet. Copies wait for the
// backward if activations are offloaded. Activations and saves share host memory.
//
// Thread: the one that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/engine/state/saved_states_folder.h"
#include "core/engine/state/state_saver.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/training_state_collector_and_loader.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/record/measurement/training.h"

namespace memtune::trial {

state::DistributedSaveRankSettings saving_rank(const plan::ResumableTrainingRequest& request);

class OverlappedStateSaver {
 public:
  // `ended` is called once per finished save. The others must outlive this.
  OverlappedStateSaver(const plan::ResumableTrainingRequest& request, ForwardBackwardRunner& runner,
                       const TrainingStateCollectorAndLoader& state, state::SavedStatesFolder& folder,
                       std::function<void(const result::SingleStateSaveRecord&)> ended);
  ~OverlappedStateSaver() { runner_.set_before_backward(nullptr); }
  OverlappedStateSaver(const OverlappedStateSaver&) = delete;
  OverlappedStateSaver& operator=(const OverlappedStateSaver&) = delete;

  // For the update of each step.
  optimizer::WriteAfterReadBarrier* gate() { return &gate_; }
  // Allocates host memory, once; to be called when activations have allocated theirs. Throws as
  // state::StateSaver::prepare.
  void prepare(const std::vector<double>& losses);
  // Saves the state after losses.size() steps. A disk error is reported as a failed save.
  void save(const std::vector<double>& losses);
  // Reports a save that cannot begin as failed.
  void fail(const std::vector<double>& losses, const std::string& why);
  void look(bool wait) { saver_.look(wait); }

  int64_t host_bytes() const { return saver_.host_bytes(); }
  double prepare_ms() const { return prepare_ms_; }

 private:
  class Gate final : public optimizer::WriteAfterReadBarrier {
   public:
    explicit Gate(state::StateSaver& saver) : saver_(saver) {}
    size_t turn(const at::Tensor& written) override;
    void await(size_t turn) override { saver_.await(turn); }

   private:
    state::StateSaver& saver_;
  };

  int64_t host_budget_bytes_;  // 0: limited by the machine's free memory
  int ranks_;
  ForwardBackwardRunner& runner_;
  const TrainingStateCollectorAndLoader& state_;
  bool prepared_ = false;
  double prepare_ms_ = 0;
  state::StateSaver saver_;
  Gate gate_{saver_};
};

}  // namespace memtune::trial
