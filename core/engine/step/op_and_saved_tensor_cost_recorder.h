// Records what a step costs, per op and per saved tensor, as plan::RecordedStepCosts for the planner. The executor
// reports the events, under a plan that offloads nothing. The caller marks where a step begins and ends. Time of
// recomputation between the request for a saved tensor and its arrival is recorded separately. Memory of recomputation
// is not recorded.
//
//   recorder.begin_step();  forward and backward of each micro-batch;  recorder.end_backward();  optimizer;  device is
//   idle; recorder.end_step();                     ... a few times ...                  recorder.costs()
//
// On a device with a queue, times of the device and of the host are recorded apart
// (plan::RecordedStepCosts::IssueTimes). The device is held while the host issues some ops, so it never waits for the
// host within them. The engines' time and the recorder's own are subtracted from the host's. Not recorded if the plan
// recomputes.
//
// If the plan offloads parameters and optimizer states, the costs are those of a plan that does not: begin_change() and
// end_change() are called around each of their copies and updates, which then run alone.
//
// Each op costs two timed events and a reset of the device's peak. Thread: the training thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/device/device.h"
#include "core/engine/step/as_if_no_state_offload_memory_meter.h"
#include "core/engine/step/running_op_storages_and_pending_saves.h"
#include "core/engine/step/saved_tensor_handle.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::step {

class OpAndSavedTensorCostRecorder {
 public:
  // Returns the gradients of parameters on the device; some may be undefined.
  using GradientsFunction = std::function<std::vector<at::Tensor>()>;

  // `plan`: the plan that the executor runs, of activations alone.
  OpAndSavedTensorCostRecorder(device::Device& device, plan::Plan plan, GradientsFunction gradients)
      : device_(device),
        plan_(std::move(plan)),
        gradients_(std::move(gradients)),
        memory_(device),
        reruns_(plan_.places(plan::TensorPlacement::recompute)) {}

  // From now on records issue times. `engine_time`: what the engines have taken of the host's time, most calls of this
  // recorder included.
  void record_issue_times(std::function<std::chrono::nanoseconds()> engine_time) {
    engine_time_ = std::move(engine_time);
  }

  // What a plan offloads that is no activation, as of AsIfNoStateOffloadMemoryMeter; `moved_gradients`: of it,
  // gradients.
  void add_moved(std::function<int64_t()> moved_bytes, std::function<int64_t()> moved_gradients) {
    memory_.add_moved(std::move(moved_bytes));
    moved_gradients_ = std::move(moved_gradients);
  }

  void begin_step();
  void end_backward();
  void end_optimizer();  // it was issued; may be left out
  void end_step();

  // Called by the executor: around the forward and each of its ops, and for each new value.
  void begin_pass();
  void end_forward();
  void begin_run(const RunningOpStoragesAndPendingSaves& op, const StorageToActivationTable& values);
  void end_run();
  void made(const autograd::SavedStoragePtr& value, const at::Storage& storage);
  // Called by the executor for each saved tensor: a view of a value, or the running op's private tensor. If a tensor is
  // reported twice, the first report counts.
  void saved(const SavedTensorHandle& tensor, const autograd::SavedStorage& value);
  void saved_private(const SavedTensorHandle& tensor, const at::Storage& storage);
  void cast(const at::Storage& storage, const autograd::SavedStoragePtr& source);  // source null: of a parameter
  // Called by the executor during the life of a saved tensor.
  void unpack_began(const SavedTensorHandle& tensor);   // before it is reloaded or recomputed
  void unpack_ended(const SavedTensorHandle& tensor);   // it is on the device now
  void release_began(const SavedTensorHandle& tensor);  // before its bytes are released
  void release_ended();                                 // after its bytes are released
  // Called by the gathers of sharded parameters: around gathering the units that a forward op or backward node is about
  // to read.
  void before_read(const std::vector<int>& units);
  void after_read();
  // Around a change of what is offloaded. Its time counts as the optimizer's, or not at all, or where it happens.
  enum class ChangeTime { of_optimizer, none, here };
  void begin_change();
  void end_change(ChangeTime time);

  // Medians of times and maxima of memory over the recorded steps. Empty if there are none or they did not run the same
  // ops.
  std::optional<plan::RecordedStepCosts> costs() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {  // a boundary between entries
    device::EventPtr event;
    Clock::time_point host;
    device::EventPtr next;            // the next entry begins; another event if the device was held between them
    std::chrono::nanoseconds beside;  // host time of engines and recorder so far
    bool waited = false;              // the host waited for the device in the entry that ends
  };
  struct Step {
    plan::RecordedStepCosts costs;
    std::vector<Mark> runs;                        // one per entry, and the end of the last entry
    std::vector<Mark> unpack_began, unpack_ended;  // one per unpack; `unpack_began` also has the end of backward
    // Host time spent waiting for gathers, and in changes of what is offloaded: after the start of each run; before the
    // first unpack and after each unpack.
    std::vector<double> run_wait_ms, unpack_wait_ms = {0};
    double rerun_wait_ms = 0, behind_wait_ms = 0, update_ms = 0;  // during recomputation; behind backward; of updates
    Mark end;
    bool held = false;
    double optimizer_issue_ms = 0;
    std::chrono::nanoseconds engine_began{0}, own_began{0};
  };
  struct Private {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // weak reference: the address is not reused
    int id;
  };

  Mark mark(bool may_hold = true);
  void end_hold() { hold_.reset(); }
  std::chrono::nanoseconds beside() const {
    return own_outside_ + (engine_time_ ? engine_time_() : std::chrono::nanoseconds(0));
  }
  void note_wait();
  void forget();
  void see_peak();
  int64_t& last_peak();
  void see_gradients();
  void add_moment(plan::RecordedStepCosts::Moment::Kind kind, int saved);
  void add_saved(const SavedTensorHandle& tensor, int value);
  int add_value(int output, int64_t bytes, bool outside);
  int id_of(const autograd::SavedStorage* value) const;  // -1: none
  int private_id(const c10::StorageImpl* storage) const;
  void take_times(Step& step) const;
  void take_issue_times(Step& step) const;

  device::Device& device_;
  const plan::Plan plan_;
  const GradientsFunction gradients_;
  AsIfNoStateOffloadMemoryMeter memory_;
  std::function<int64_t()> moved_gradients_;
  const bool reruns_;
  Step now_;
  enum class Part { none, forward, backward, behind } part_ = Part::none;
  std::unordered_map<const autograd::SavedStorage*, int> values_;
  std::vector<std::weak_ptr<autograd::SavedStorage>> known_;       // weak references: the addresses are not reused
  std::unordered_map<const c10::StorageImpl*, Private> privates_;  // of this forward
  std::unordered_map<const SavedTensorHandle*, int> tensors_;
  bool last_is_read_ = false;     // the last entry of backward is a read of units
  std::vector<int> units_;        // units that the next op reads
  Clock::time_point read_began_;  // or a change of what is offloaded
  std::function<std::chrono::nanoseconds()> engine_time_;
  std::chrono::nanoseconds own_{0};          // host time of this recorder that the engines' time contains
  std::chrono::nanoseconds own_outside_{0};  // the rest of it
  std::unique_ptr<device::ScopedComputeStreamPause> hold_;
  int held_marks_ = 0;                // since hold_ began
  std::unordered_set<int> waits_in_;  // ops that were seen to wait for the device: it is not held for them
  bool ending_ = false;               // the last moment is an end whose bytes are not released yet
  std::vector<int> ended_early_;      // indices into `saved` of tensors that ended during forward
  int64_t start_bytes_ = 0;
  std::vector<plan::RecordedStepCosts> steps_;
};

}  // namespace memtune::step
