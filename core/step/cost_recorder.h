// Records what a step costs, op by op and saved tensor by saved tensor, for a planner: config::StepCosts. The executor
// tells it what happens, under a plan that keeps everything; whoever runs the step says where it begins and ends.
//
//   recorder.begin_step();  forward and backward, once a pass;  recorder.end_backward();  optimizer;  the device is
//   idle; recorder.end_step();                     ... a few times ...                  recorder.costs()
//
// Costs two timed events an op, and the device's peak is reset at each. Thread: the one that trains.
#pragma once

#include <chrono>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/config/step_costs.h"
#include "core/device/device.h"
#include "core/step/running_op.h"
#include "core/step/saved_tensor.h"

namespace memtune::step {

class CostRecorder {
 public:
  explicit CostRecorder(device::Device& device) : device_(device) {}

  void begin_step();
  void end_backward();
  void end_step();

  // Of the executor: around the forward, the ops of it, the values that come into being.
  void begin_pass();
  void end_forward();
  void begin_run(const RunningOp& op, const ValueTable& values);
  void end_run();
  void made(const autograd::ValuePtr& value);
  void cast(const autograd::ValuePtr& value, const autograd::ValuePtr& source);  // behind made(); source null: no value
  // Of the executor: what becomes of saved tensors.
  void saved(const SavedTensor& tensor, const autograd::SavedValue& value);
  void unpack(const SavedTensor& tensor);
  void ended(const SavedTensor& tensor);

  // Medians over the steps, and the most memory of them; nothing where they did not run the same ops.
  std::optional<config::StepCosts> costs() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {  // a point of the step, between entries
    device::EventPtr event;
    Clock::time_point host;
  };
  struct Step {
    config::StepCosts costs;
    std::vector<Mark> runs, unpacks;  // one an entry, and the end behind the last
    Mark end;
  };

  Mark mark() { return {device_.record_timed(device::Stream::compute), Clock::now()}; }
  void see_peak();
  void add_moment(config::StepCosts::Moment::Kind kind, int saved);
  static void take_times(Step& step);

  device::Device& device_;
  Step now_;
  enum class Part { none, forward, backward, behind } part_ = Part::none;
  std::unordered_map<const autograd::SavedValue*, int> values_;
  std::vector<autograd::ValuePtr> alive_;  // so that no address comes back
  std::unordered_map<const SavedTensor*, int> tensors_;
  std::vector<int> ended_early_;  // indices into `saved`, of what ended in the forward
  int64_t start_bytes_ = 0;
  std::vector<config::StepCosts> steps_;
};

}  // namespace memtune::step
