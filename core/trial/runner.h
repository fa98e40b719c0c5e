// One way to run the steps of a trial: a model that is ready to train, under a plan. The trial warms up, measures,
// traces and compares whatever runner it is given. Forward, backward and memory every runner has; what more one can
// tell (its engines' figures, ops and values for a trace, who held memory when there was none left) is optional.
//
// Thread: the one that trains. Steps follow each other; gradients are left on the parameters until drop_gradients().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/config/step_costs.h"
#include "core/config/trial_request.h"
#include "core/device/device.h"
#include "core/optimizer/optimizer.h"
#include "core/profiler/profiler.h"
#include "core/program/state.h"
#include "core/result/measurement.h"
#include "core/shard/collectives.h"
#include "core/trace/event.h"
#include "core/trial/reference.h"

namespace memtune::trial {

// Told where a traced step is.
class StepNotes {
 public:
  virtual ~StepNotes() = default;
  virtual void begin_forward() = 0;  // backward begins where the runner sees that it does
  virtual void begin_optimizer() = 0;
  virtual void end_step() = 0;  // the device is idle
  // From the next step on times are taken; of those before, who held memory.
  virtual void begin_times() = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;

  virtual device::Device& device() = 0;
  virtual const NamedParameters& parameters() const = 0;
  // What lasts from step to step; without buffers and attributes where a runner does not tell.
  virtual program::State state() const { return {parameters(), {}, {}, {}}; }
  // Of a runner that has a part of each gradient alone.
  virtual optimizer::JoinNorms join_norms() { return {}; }
  // The tables of embeddings among them (TensorImpl).
  virtual std::unordered_set<const void*> embeddings() const { return {}; }
  struct Work {
    int64_t samples = 0, tokens = 0;
  };
  virtual Work work() const = 0;  // of a step

  // Whether any of the processes that train together says so, on all of them: they all ask at the same moment.
  virtual bool any_rank(bool here) { return here; }
  // What each of them says, one behind the other; likewise.
  virtual std::vector<double> of_all_ranks(const std::vector<double>& here) { return here; }

  // The loss before anything has moved; leaves everything as it was, random state included.
  virtual double untouched_loss() = 0;
  // The loss, still on the device. Throws what ops and engines throw.
  virtual at::Tensor forward_backward() = 0;
  // The same, with all but the gradients left as it was: buffers, attributes, random state.
  virtual at::Tensor untouched_step() = 0;

  // From now on called in each step where its first backward begins.
  virtual void set_before_backward(std::function<void()> /*call*/) {}
  // Whether the link to host memory carries what is needed again in the same step.
  virtual bool moves() const { return false; }
  // Host memory that the engines hold, and the most that they may from now on (0: no limit).
  virtual int64_t host_bytes() const { return 0; }
  virtual void set_host_budget(int64_t /*bytes*/) {}

  // Of what lasts beside buffers and attributes, the memory that a forward writes into; leaves everything else as it
  // was.
  virtual std::set<const void*> written_memory() { return {}; }

  // Around step i of the warm-up, which takes as many steps at least.
  virtual int least_warm_up() const { return 0; }
  virtual void begin_warm_up(int /*i*/) {}
  virtual void end_warm_up(int /*i*/) {}

  // What the engines did in the measured steps between the two calls.
  virtual void begin_measuring() {}
  virtual void add_figures(int /*steps*/, result::Measurement& /*to*/) {}

  // False: there is nothing to trace. The notes are the runner's until the end.
  virtual bool prepare_trace() { return false; }
  virtual StepNotes* start_trace(profiler::Profiler& /*profiler*/, const optimizer::Optimizer& /*optimizer*/) {
    return nullptr;
  }
  virtual void finish_trace(trace::Trace& /*trace*/, result::Measurement& /*to*/) {}

  // False: it cannot tell what a step costs op by op. The notes are the runner's until finish_costs().
  virtual StepNotes* start_costs() { return nullptr; }
  // Nothing where steps differ in what they run.
  virtual std::optional<config::StepCosts> finish_costs() { return {}; }

  // After a step that threw: "forward, aten::linear at model.py:42".
  virtual std::string where() const { return ""; }
  // Who held most device memory when a forward came to where the last one threw; may run it again.
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

  // Of the parameters, as the request asks for it.
  std::unique_ptr<optimizer::Optimizer> make_optimizer(const config::TrainingSettings& training) {
    optimizer::OptimizerSettings settings = optimizer::settings_of(training);
    settings.embeddings = embeddings();
    settings.join_norms = join_norms();
    return optimizer::make_optimizer(settings, parameter_tensors());
  }

  void drop_gradients() {
    for (const auto& [name, parameter] : parameters()) parameter.mutable_grad().reset();
  }
};

// The runner that the request asks for. UsageError for what the person can fix: file, inputs, names.
// `ranks` of a model that is sharded over them; null: it is all here.
std::unique_ptr<Runner> make_runner(const config::TrialRequest& request,
                                    std::unique_ptr<shard::Collectives> ranks = nullptr);

}  // namespace memtune::trial
