// Records what a step costs, op by op and saved tensor by saved tensor, for a planner: config::StepCosts. The executor
// tells it what happens, under a plan that moves nothing; whoever runs the step says where it begins and ends. What is
// made again between asking for a saved tensor and getting it is told apart, as its time; its memory is nobody's.
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
  // `plan`: that the executor runs; `parameters`: that are trained and whose gradients are counted; none: they are not.
  CostRecorder(device::Device& device, config::Plan plan, std::vector<at::Tensor> parameters)
      : device_(device),
        plan_(std::move(plan)),
        parameters_(std::move(parameters)),
        reruns_(plan_.places(config::Place::recompute)) {}

  void begin_step();
  void end_backward();
  void end_step();

  // Of the executor: around the forward, the ops of it, the values that come into being.
  void begin_pass();
  void end_forward();
  void begin_run(const RunningOp& op, const ValueTable& values);
  void end_run();
  void made(const autograd::ValuePtr& value, const at::Storage& storage);
  // Of the executor: what is saved, of a value, or of what the running op keeps for itself. Of a tensor that is told of
  // twice the first counts.
  void saved(const SavedTensor& tensor, const autograd::SavedValue& value);
  void saved_private(const SavedTensor& tensor, const at::Storage& storage);
  void cast(const at::Storage& storage, const autograd::ValuePtr& source);  // of saved_private(); source null: no value
  // Of the executor: what becomes of saved tensors.
  void asked(const SavedTensor& tensor);   // before its bytes are brought about,
  void handed(const SavedTensor& tensor);  // and when they are there
  void ended(const SavedTensor& tensor);   // before its bytes are let go,
  void let_go();                           // and when they are
  // Of whoever gathers sharded parameters: around what brings the units about that an op of the forward or a node of
  // backward is about to read.
  void before_read(const std::vector<int>& units);
  void after_read();

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
    std::vector<Mark> runs;           // one an entry, and the end behind the last
    std::vector<Mark> asked, handed;  // one an unpack; the end of backward behind the last of `asked`
    // That the host stood for gathers: behind the begin of each run, and of backward before the first unpack and behind
    // each.
    std::vector<double> run_wait_ms, unpack_wait_ms = {0};
    Mark end;
  };
  struct Private {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // so that no address comes back
    int id;
  };

  Mark mark() { return {device_.record_timed(device::Stream::compute), Clock::now()}; }
  void forget();
  void see_peak();
  int64_t& last_peak();
  void see_gradients();
  void add_moment(config::StepCosts::Moment::Kind kind, int saved);
  void add_saved(const SavedTensor& tensor, int value);
  int add_value(int output, int64_t bytes, bool outside);
  int id_of(const autograd::SavedValue* value) const;  // -1: none
  int private_id(const c10::StorageImpl* storage) const;
  static void take_times(Step& step);

  device::Device& device_;
  const config::Plan plan_;
  const std::vector<at::Tensor> parameters_;
  const bool reruns_;
  Step now_;
  enum class Part { none, forward, backward, behind } part_ = Part::none;
  std::unordered_map<const autograd::SavedValue*, int> values_;
  std::vector<std::weak_ptr<autograd::SavedValue>> known_;         // so that no address comes back
  std::unordered_map<const c10::StorageImpl*, Private> privates_;  // of this forward
  std::unordered_map<const SavedTensor*, int> tensors_;
  bool last_is_read_ = false;  // of what backward has noted
  std::vector<int> units_;     // that the next op reads
  Clock::time_point read_began_;
  bool ending_ = false;           // the last moment is an end whose bytes are not let go yet
  std::vector<int> ended_early_;  // indices into `saved`, of what ended in the forward
  int64_t start_bytes_ = 0;
  std::vector<config::StepCosts> steps_;
};

}  // namespace memtune::step
