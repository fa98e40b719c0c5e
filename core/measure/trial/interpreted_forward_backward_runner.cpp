#include "core/measure/trial/interpreted_forward_backward_runner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

#include "core/base/device/torch/shape_only_meta_device.h"
#include "core/base/error.h"
#include "core/engine/shard/units.h"
#include "core/engine/step/cuda_shape_kernels.h"
#include "core/model/frontend/dtype.h"
#include "core/plan/request/trial_request.h"

namespace memtune::trial {
namespace {

double to_ms(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

// Queries the owners of memory after each op, so that those at the last op are known.
struct LastOwners final : program::OpObserver {
  explicit LastOwners(step::ActivationPlanExecutor& executor) : executor(executor) {}
  void before(const program::Op& op, const program::Stack& inputs) override { executor.before(op, inputs); }
  void after(const program::Op& op, const program::Stack& outputs) override {
    executor.after(op, outputs);
    holders = executor.largest_holders(3);
  }
  step::ActivationPlanExecutor& executor;
  std::vector<step::DeviceMemoryHeldByOpKind> holders;
};

}  // namespace

InterpretedForwardBackwardRunner::InterpretedForwardBackwardRunner(const plan::TrialRequest& request,
                                                                   std::unique_ptr<shard::Collectives> ranks)
    : request_(request), session_(request), ranks_(std::move(ranks)) {
  if (const int capability = device::shape_capability(request.training.device); capability >= 0)
    step::allocate_as_cuda(capability);
  if (ranks_) {
    sharded_.emplace(session_.program(), session_.facts(), *ranks_, shard_settings());
    session_.set_parameters(&*sharded_);
  } else if (request.plan.offloads_states()) {
    states_.emplace(session_.program(), session_.facts(), request.plan, session_.device());
    session_.set_parameters(&*states_);
  }
  if (!request.plan.keeps_everything()) make_executor();
}

shard::ReshardDtypeAndOffloadOptions InterpretedForwardBackwardRunner::shard_settings() {
  const plan::TrainingSettings& training = request_.training;
  const auto dtype = [](const std::string& name) {
    return name.empty() ? std::nullopt : std::optional(frontend::scalar_type(plan::canonical_dtype(name)));
  };
  return {.reshard = schedule::parse_reshard(training.reshard),
          .dtype = dtype(training.shard_dtype),
          .reduce_dtype = dtype(training.reduce_dtype),
          .host_of = training.shard_offload ? &session_.device() : nullptr};
}

void InterpretedForwardBackwardRunner::make_executor() {
  const plan::TrainingSettings& training = request_.training;
  step::HostBudgetAndScratchStore tiers;
  tiers.host_budget_bytes = training.host_budget_bytes;
  if (request_.plan.places(plan::TensorPlacement::disk))
    tiers.store = std::make_unique<disk::ScratchBlockStore>(
        disk::ScratchBlockStoreSettings{.directory = training.scratch,
                                        .budget_bytes = training.disk_budget_bytes,
                                        .allow_memory = training.scratch_in_memory});
  executor_.emplace(session_.program(), session_.facts(), request_.plan, session_.device(), std::move(tiers));
  if (sharded_) executor_->set_parameters(&*sharded_);
  if (states_) executor_->set_parameters(&*states_);
}

program::ModelParametersAndBuffers InterpretedForwardBackwardRunner::state() const {
  program::ModelParametersAndBuffers state = session_.program().state;
  if (sharded_) state.shards = sharded_->shards();
  return state;
}

void InterpretedForwardBackwardRunner::finish_updates() {
  if (!states_) return;
  states_->finish_updates();
  device().synchronize();
}

void InterpretedForwardBackwardRunner::make_states(optimizer::Optimizer& optimizer,
                                                   const std::vector<size_t>& parameters) {
  if (states_) return states_->make_moments(parameters);
  ForwardBackwardRunner::make_states(optimizer, parameters);
}

std::vector<double> InterpretedForwardBackwardRunner::gather_from_ranks(const std::vector<double>& here) {
  if (!ranks_) return here;
  const at::Tensor own = at::tensor(here, at::kDouble);
  const at::Tensor all = at::empty({ranks_->size() * own.numel()}, own.options());
  ranks_->all_gather(all, own, "what each rank has to say")->wait();
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
}

at::Tensor InterpretedForwardBackwardRunner::forward_backward() {
  return session_.forward_backward(executor(), step_trace_ ? &*step_trace_ : nullptr);
}

void InterpretedForwardBackwardRunner::begin_warm_up(int i) {
  if (offloads_activations() && i == 1) executor_->begin_learning();
}

void InterpretedForwardBackwardRunner::end_warm_up(int i) {
  if (offloads_activations() && i == 1) executor_->end_learning();
}

void InterpretedForwardBackwardRunner::begin_measuring() {
  if (sharded_) {
    communicated_before_ = sharded_->counters();
    stood_before_ = ranks_->exposed_time();
  }
  if (states_) states_before_ = states_->counters();
  if (!executor_) return;
  reruns_before_ = executor_->reruns();
  recomputed_before_ = executor_->recomputed_bytes();
  host_time_before_ = executor_->host_time();
}

// Byte counts are of the last micro-batch: each of them copies the same, in every step.
void InterpretedForwardBackwardRunner::add_figures(int steps, result::TrialMeasurement& to) {
  to.recomputed_bytes = 0;
  to.host_bytes = sharded_ ? sharded_->host_bytes() : 0;
  if (sharded_) {
    const auto& counters = sharded_->counters();
    to.communication.gathered_bytes = (counters.gathered_bytes - communicated_before_.gathered_bytes) / steps;
    to.communication.reduced_bytes = (counters.reduced_bytes - communicated_before_.reduced_bytes) / steps;
    to.communication.exposed_ms = to_ms(ranks_->exposed_time() - stood_before_) / steps;
  }
  if (states_) {
    to.host_bytes += states_->host_bytes();
    to.host_peak_bytes = states_->host_bytes();
    to.transfer.in_bytes = (states_->counters().in_bytes - states_before_.in_bytes) / steps;
    to.transfer.out_bytes = (states_->counters().out_bytes - states_before_.out_bytes) / steps;
  }
  if (!executor_) return;
  to.engine_ms = to_ms(executor_->host_time() - host_time_before_) / steps;
  to.recomputed_ops = (executor_->reruns() - reruns_before_) / steps;
  to.recomputed_bytes = (executor_->recomputed_bytes() - recomputed_before_) / steps;
  const int passes = request_.training.accumulate;
  to.transfer.out_bytes += passes * executor_->offload().counters().out_bytes;
  to.transfer.in_bytes += passes * executor_->offload().counters().in_bytes;
  const tier::DiskSpillingActivationHostTier& tier = executor_->tier();
  to.transfer.disk_write_bytes = passes * tier.counters().disk_write_bytes;
  to.transfer.disk_read_bytes = passes * tier.counters().disk_read_bytes;
  to.host_bytes += tier.pool().reserved_bytes();
  to.host_peak_bytes += tier.pool().peak_leased_bytes();
  to.disk_peak_bytes = tier.peak_disk_bytes();
}

bool InterpretedForwardBackwardRunner::prepare_trace() {
  if (!executor_) make_executor();
  executor_->enable_timers();
  return true;
}

StepPhaseObserver* InterpretedForwardBackwardRunner::start_trace(profiler::DeviceActivityProfiler& profiler,
                                                                 const optimizer::Optimizer& optimizer) {
  const bool on_host = request_.training.shard_offload || states_;
  const bool updates_there = on_host && (states_ || !device().emulated());
  owners_.emplace(session_.facts(), on_host ? NamedParameters() : parameters(),
                  updates_there ? 0 : optimizer.state_bytes(), *executor_, device().memory().allocated);
  step_trace_.emplace(session_.facts(), device(), profiler, *executor_, *owners_);
  return &*step_trace_;
}

void InterpretedForwardBackwardRunner::finish_trace(trace::Trace& trace, result::TrialMeasurement& to) {
  step_trace_->finish(trace);
  step_trace_.reset();
  owners_.reset();
  // These are the counters of the last micro-batch; the device is idle.
  const tier::DiskSpillingActivationHostTier::Counters& counters = executor_->tier().counters();
  const int passes = request_.training.accumulate;
  to.recompute_ms = passes * executor_->rerun_ms();
  to.stalls = {passes * to_ms(counters.room_stall), passes * to_ms(counters.disk_stall),
               passes * executor_->copy_stall_ms()};
}

StepPhaseObserver* InterpretedForwardBackwardRunner::start_costs() {
  if (request_.plan.offloads_activations()) return nullptr;
  if (!executor_) make_executor();
  plan::Plan plan = request_.plan;
  plan.states.clear();
  cost_notes_.emplace(device(), *executor_, plan, parameter_tensors(), sharded_ ? &*sharded_ : nullptr,
                      states_ ? &*states_ : nullptr, request_.training.optimizer_in_backward);
  return &*cost_notes_;
}

std::optional<plan::RecordedStepCosts> InterpretedForwardBackwardRunner::finish_costs() {
  std::optional<plan::RecordedStepCosts> costs = cost_notes_->costs();
  cost_notes_.reset();
  if (!costs || !sharded_) return costs;
  costs->sharding.ranks = ranks_->size();
  costs->sharding.rank = ranks_->rank();
  costs->sharding.reshard = request_.training.reshard;
  costs->sharding.shard_bytes = sharded_->device_shard_bytes();
  return costs;
}

plan::RecordedStepCosts::States InterpretedForwardBackwardRunner::state_costs(
    const optimizer::Optimizer& optimizer) try {
  using StateUnit = plan::RecordedStepCosts::StateUnit;
  plan::RecordedStepCosts::States states{
      request_.training.max_grad_norm > 0, request_.training.optimizer_in_backward, {}};
  if (sharded_ || request_.training.optimizer.starts_with("paged_")) return states;
  std::unordered_map<const void*, size_t> numbers;
  for (size_t i = 0; i < optimizer.parameters().size(); ++i)
    numbers[optimizer.parameters()[i].unsafeGetTensorImpl()] = i;
  const std::vector<plan::BlockModulePath>& blocks = session_.facts().blocks;
  for (const shard::ParameterUnit& unit :
       states_ ? states_->units() : shard::find_units(session_.program(), session_.facts())) {
    const auto block = std::ranges::find(blocks, unit.name, &plan::BlockModulePath::region);
    StateUnit& bytes = states.units.emplace_back();
    bytes.name = unit.name;
    bytes.block = block != blocks.end()              ? static_cast<int>(block - blocks.begin())
                  : unit.name.starts_with("before ") ? StateUnit::kBefore
                                                     : StateUnit::kBehind;
    for (const auto& [name, parameter] : unit.parameters) {
      (parameter.requires_grad() ? bytes.trained_bytes : bytes.frozen_bytes) +=
          static_cast<int64_t>(parameter.nbytes());
      const auto number = numbers.find(parameter.unsafeGetTensorImpl());
      if (number == numbers.end()) continue;  // frozen
      for (const auto& [state_name, state] : optimizer.state(number->second))
        if (state.dim() > 0 && state.device() == parameter.device())
          bytes.moment_bytes += static_cast<int64_t>(state.nbytes());
    }
  }
  return states;
} catch (const UsageError&) {
  return {};  // parameters that cannot be moved
}

std::string InterpretedForwardBackwardRunner::where() const {
  return session_.in_forward() ? "forward, " + session_.where() : "backward or optimizer";
}

// The activations are gone after the throw, so the forward runs again, to the same point. With several ranks all would
// have to do that.
std::vector<ForwardBackwardRunner::Owner> InterpretedForwardBackwardRunner::largest_owners() {
  if (sharded_) return {};
  drop_gradients();
  device().empty_cache();
  executor_.reset();
  make_executor();
  LastOwners last(*executor_);
  try {
    session_.forward_backward(&*executor_, &last);
  } catch (const c10::OutOfMemoryError&) {
  }
  drop_gradients();
  std::vector<Owner> owners;
  for (const auto& holder : last.holders) owners.push_back({holder.name, holder.bytes});
  return owners;
}

std::unique_ptr<ForwardBackwardRunner> make_runner(const plan::TrialRequest& request,
                                                   std::unique_ptr<shard::Collectives> ranks) {
  return std::make_unique<InterpretedForwardBackwardRunner>(request, std::move(ranks));
}

}  // namespace memtune::trial
