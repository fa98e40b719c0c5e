// Interface to a model that is ready to train under a plan. A trial uses it to warm up, measure, trace and compare.
// Every runner has forward, backward and memory. The rest is optional: figures of its engines, ops and activations for
// a trace, and the owners of memory after an out of memory error.
//
// Thread: the one that trains. Steps run one after another; gradients stay on the parameters until drop_gradients().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/device/device.h"
#include "core/engine/optimizer/optimizer.h"
#include "core/engine/shard/collectives.h"
#include "core/measure/profiler/device_activity_profiler.h"
#include "core/measure/trial/reference.h"
#include "core/model/program/state.h"
#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/request/trial_request.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/trace/trace_event.h"

namespace memtune::trial {

// Receives the position in a traced step.
class StepPhaseObserver {
 public:
  virtual ~StepPhaseObserver() = default;
  virtual void begin_forward() = 0;  // the runner itself detects the begin of backward
  virtual void begin_optimizer() = 0;
  virtual void end_optimizer() {}  // it is enqueued
  virtual void end_step() = 0;     // the device is idle
  // Steps after this call are timed; those before record the owners of memory.
  virtual void begin_timing() = 0;
};

class ForwardBackwardRunner {
 public:
  virtual ~ForwardBackwardRunner() = default;

  virtual device::Device& device() = 0;
  virtual const NamedParameters& parameters() const = 0;
  // The state that persists between steps; without buffers and attributes if a runner does not know them.
  virtual program::ModelParametersAndBuffers state() const { return {parameters(), {}, {}, {}}; }
  // For a runner that has only a part of each gradient.
  virtual optimizer::GlobalNormFunction join_norms() { return {}; }
  // The embedding tables among the parameters (TensorImpl).
  virtual std::unordered_set<const void*> embeddings() const { return {}; }
  struct StepWork {
    int64_t samples = 0, tokens = 0;
  };
  virtual StepWork work() const = 0;  // of a step

  // Runs the optimizer inside every backward from now on, if the plan offloads its states; else returns false.
  virtual bool update_in_backward(optimizer::Optimizer& /*optimizer*/) { return false; }
  // Runs the updates of the last step that wait for the next forward, and waits until host memory has all bytes.
  virtual void finish_updates() {}
  // A parameter or an optimizer state, or where the plan offloads it, its bytes in host memory. After finish_updates(),
  // or before the first step.
  virtual at::Tensor with_bytes(const at::Tensor& state) const { return state; }
  // Makes the optimizer states of these parameters, to load saved ones into.
  virtual void make_states(optimizer::Optimizer& optimizer, const std::vector<size_t>& parameters) {
    for (const size_t i : parameters) optimizer.make_state(i);
  }

  // True on all ranks if it is true on any. All ranks must call it at the same point.
  virtual bool any_rank(bool here) { return here; }
  // The values of every rank, in the order of ranks. All ranks must call it at the same point.
  virtual std::vector<double> gather_from_ranks(const std::vector<double>& here) { return here; }

  // The loss before any update. Restores everything, including random state.
  virtual double untouched_loss() = 0;
  // Returns the loss, still on the device. Throws what ops and engines throw.
  virtual at::Tensor forward_backward() = 0;
  // The same, but restores everything except the gradients: buffers, attributes, random state.
  virtual at::Tensor untouched_step() = 0;

  // From now on `call` runs in each step when its first backward begins.
  virtual void set_before_backward(std::function<void()> /*call*/) {}
  // True if a step offloads activations over the link to host memory and reloads them.
  virtual bool offloads_activations() const { return false; }
  // Host memory that the engines hold, and its limit from now on (0: none).
  virtual int64_t host_bytes() const { return 0; }
  virtual void set_host_budget(int64_t /*bytes*/) {}

  // Memory into which a forward writes, of what persists apart from buffers and attributes. Restores everything else.
  virtual std::set<const void*> written_memory() { return {}; }

  // Called around step i of the warm-up, which takes at least least_warm_up() steps.
  virtual int least_warm_up() const { return 0; }
  virtual void begin_warm_up(int /*i*/) {}
  virtual void end_warm_up(int /*i*/) {}

  // Figures of the engines in the measured steps between the two calls.
  virtual void begin_measuring() {}
  virtual void add_figures(int /*steps*/, result::TrialMeasurement& /*to*/) {}

  // prepare_trace() returns false if there is nothing to trace. The runner owns the notes until finish_trace().
  virtual bool prepare_trace() { return false; }
  virtual StepPhaseObserver* start_trace(profiler::DeviceActivityProfiler& /*profiler*/,
                                         const optimizer::Optimizer& /*optimizer*/) {
    return nullptr;
  }
  virtual void finish_trace(trace::Trace& /*trace*/, result::TrialMeasurement& /*to*/) {}

  // Null if the runner cannot record costs op by op. The runner owns the notes until finish_costs().
  virtual StepPhaseObserver* start_costs() { return nullptr; }
  // None if steps run different ops.
  virtual std::optional<plan::RecordedStepCosts> finish_costs() { return {}; }
  // Parameters and optimizer states by unit. Empty if the runner does not know them.
  virtual plan::RecordedStepCosts::States state_costs(const optimizer::Optimizer& /*optimizer*/) { return {}; }

  // Where a step threw: "forward, aten::linear at model.py:42".
  virtual std::string where() const { return ""; }
  // The largest owners of device memory at the point where the last forward threw. It may run the forward again.
  struct Owner {
    std::string name;
    int64_t bytes = 0;
  };
  virtual std::vector<Owner> largest_owners() { return {}; }

  std::vector<at::Tensor> parameter_tensors() {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, parameter] : parameters()) tensors.push_back(parameter);
    return tensors;
  }

  // An optimizer of the parameters, with the request's settings.
  std::unique_ptr<optimizer::Optimizer> make_optimizer(const plan::TrainingSettings& training) {
    optimizer::OptimizerSettings settings = optimizer::settings_of(training);
    settings.embeddings = embeddings();
    settings.join_norms = join_norms();
    return optimizer::make_optimizer(settings, parameter_tensors());
  }

  void drop_gradients() {
    for (const auto& [name, parameter] : parameters()) parameter.mutable_grad().reset();
  }
};

// Makes the runner for a request. Throws UsageError for errors of the user: file, inputs, names. `ranks` of a model
// that is sharded over them; null: it is not sharded.
std::unique_ptr<ForwardBackwardRunner> make_runner(const plan::TrialRequest& request,
                                                   std::unique_ptr<shard::Collectives> ranks = nullptr);

}  // namespace memtune::trial
