#include "core/measure/trial/trial.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/allocator_settings.h"
#include "core/base/bytes.h"
#include "core/base/device/torch/shape_only_meta_device.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/median.h"
#include "core/base/scoped_timer.h"
#include "core/base/text.h"
#include "core/engine/optimizer/optimizer_in_backward.h"
#include "core/measure/profiler/device_activity_profiler.h"
#include "core/measure/trial/compute_copy_disk_interference_probe.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/measure/trial/provenance.h"
#include "core/measure/trial/reference_gradient_checker.h"
#include "core/measure/trial/shape_costs.h"
#include "core/model/frontend/detected_model_source.h"
#include "core/model/program/first_line.h"
#include "core/record/measurement/overlap.h"
#include "core/record/trace/file.h"

namespace memtune::trial {
namespace {

using result::TrialMeasurement;
using result::TrialOutcome;

constexpr int kCostSteps = 3;
constexpr const char* kForward = "forward";                  // of ForwardBackwardRunner::where()
constexpr const char* kOfAllocator = "reserved by PyTorch";  // in CUDA's message, which has advice

class Trial {
 public:
  Trial(const plan::TrialRequest& request, ForwardBackwardRunner& runner, TrialFrameWriter& frames)
      : request_(request), frames_(frames), runner_(runner), device_(runner.device()), gradients_(request, runner) {
    result_.strategy = request.plan.strategy;
    result_.device = device_.name();
    result_.emulated = device_.emulated();
    result_.cap_bytes = request.training.memory_cap_bytes;
    result_.allocator = request.envelope.allocator;
  }

  TrialMeasurement run() {
    try {
      if (request_.envelope.round == 0) compare_gradients();
      if (request_.envelope.only_gradients || result_.gradients.undecided) return std::move(result_);
      device_.empty_cache();  // memory that the allocator keeps would not be capped
      device_.limit_process(request_.training.memory_cap_bytes);
      device_.reset_peak();
      optimizer_ = runner_.make_optimizer(request_.training);
      if (!runner_.update_in_backward(*optimizer_) && request_.training.optimizer_in_backward)
        in_backward_.emplace(*optimizer_);
      at::manual_seed(request_.training.seed);
      warm_up();
      measure();
      if (!request_.envelope.costs.empty()) record_costs();
      if (request_.envelope.round == 0 && request_.training.traced_steps > 0) trace_steps();
    } catch (const c10::OutOfMemoryError& error) {
      out_of_memory(error);
    } catch (const OutOfHostMemoryError& error) {
      fail(TrialOutcome::host_oom, error);
    } catch (const std::bad_alloc&) {
      fail(TrialOutcome::host_oom, OutOfHostMemoryError("out of host memory; " + memory_limit()));
    } catch (const DiskFullError& error) {
      fail(TrialOutcome::disk_full, error);
    } catch (const DiskOrFileSystemError& error) {
      fail(TrialOutcome::disk_error, error);
    } catch (const DiskDataCorruptionError& error) {
      fail(TrialOutcome::corrupt, error);
    }
    if (result_.outcome == TrialOutcome::ok) gradients_.evaluate(result_);
    return std::move(result_);
  }

 private:
  void fail(TrialOutcome outcome, const Error& error) {
    result_.outcome = outcome;
    result_.reason = "in " + phase_ + ": " + error.what();
  }

  // Runs without the cap: the baseline may need more memory than the emulated GPU has.
  void compare_gradients() {
    phase_ = "reference";
    frames_.phase(phase_, 1, 1);
    gradients_.compare(result_);
  }

  void warm_up() {
    phase_ = "warmup";
    if (!request_.plan.offloads_states()) optimizer_->make_states();
    const int steps = std::max(request_.training.warmup, runner_.least_warm_up());
    for (int i = 0; i < steps; ++i) {
      frames_.phase(phase_, i + 1, steps);
      runner_.begin_warm_up(i);
      step();
      runner_.end_warm_up(i);
      device_.limit_process(request_.training.memory_cap_bytes);
    }
  }

  // Wall time of a whole step: forward, backward, optimizer, reading the loss. Copies to host memory that run behind it
  // go on in the next step, as in a training; with `notes`, the device is idle at the end.
  double step(StepPhaseObserver* notes = nullptr) {
    auto start = std::chrono::steady_clock::now();
    if (notes) notes->begin_forward();
    at::Tensor loss = runner_.forward_backward();
    if (notes) notes->begin_optimizer();
    optimizer_->step();
    if (notes) notes->end_optimizer();
    last_loss_ = loss.is_meta() ? 0 : loss.item<double>();
    device_.record(device::StreamKind::compute)->synchronize();
    if (notes) device_.synchronize();
    if (notes) notes->end_step();
    if (!std::isfinite(last_loss_) && result_.outcome == TrialOutcome::ok) {
      result_.outcome = TrialOutcome::nan;
      result_.reason = "the loss is " + std::to_string(last_loss_) + " in " + phase_;
    }
    return ms_since(start);
  }

  void measure() {
    phase_ = "measure";
    device_.synchronize();
    device_.reset_peak();
    const int64_t retries = device_.memory().retries;
    result_.floor_bytes = device_.memory().allocated;
    runner_.begin_measuring();
    std::vector<double> samples;
    for (int i = 0; i < request_.training.steps; ++i) {
      frames_.phase(phase_, i + 1, request_.training.steps);
      samples.push_back(step());
      result_.loss.push_back(last_loss_);
    }
    const device::AllocatorStats memory = device_.memory();
    result_.peak_bytes = {memory.peak_allocated, memory.peak_reserved,
                          device_.emulated() ? 0 : memory.peak_reserved + device_.unmanaged_bytes()};
    result_.allocator_retries = memory.retries - retries;
    result_.step_ms = result::summarize(samples);
    result_.noisy = result::is_noisy(result_.step_ms);
    double seconds = result_.step_ms.median / 1e3;
    const ForwardBackwardRunner::StepWork work = runner_.work();
    result_.samples_per_s = static_cast<double>(work.samples) / seconds;
    result_.tokens_per_s = static_cast<double>(work.tokens) / seconds;
    runner_.add_figures(request_.training.steps, result_);
    if (updates_on_host()) result_.host_bytes += optimizer_->state_bytes();
  }

  bool updates_on_host() const { return request_.training.shard_offload && !device_.emulated(); }

  // Records for planners what each op and each saved tensor of a step costs.
  void record_costs() try {
    phase_ = "costs";
    device_.set_cap(0);  // the measured steps did fit
    StepPhaseObserver* notes = runner_.start_costs();
    if (notes == nullptr) return;
    for (int i = 0; i < kCostSteps; ++i) {
      frames_.phase(phase_, i + 1, kCostSteps);
      step(notes);
    }
    std::optional<plan::RecordedStepCosts> costs = runner_.finish_costs();
    if (!costs) return;
    const bool moves_states = request_.plan.offloads_states();
    costs->step_ms = moves_states ? costs->recorded_ms(costs->passes) : result_.step_ms.median;
    costs->states = runner_.state_costs(*optimizer_);
    if (moves_states) {
      costs->states.placements = request_.plan.states;
      costs->states.measured_ms = result_.step_ms.median;
    }
    costs->expandable_segments = request_.envelope.allocator.empty() && expands_segments();
    device_.empty_cache();
    if (const device::AllocatorStats lasting = device_.memory(); !device_.emulated())
      costs->device_overhead_bytes = device_.unmanaged_bytes() + lasting.reserved - lasting.allocated;
    if (costs->sharded() && !updates_on_host()) costs->sharding.shard_bytes += optimizer_->state_bytes();
    const profiler::LinkBandwidth link = profiler::probe_link(device_);
    costs->out_gb_per_s = link.out_gb_per_s;
    costs->in_gb_per_s = link.in_gb_per_s;
    if (costs->has_issue_times()) costs->issue.copy_ms = link.copy_issue_ms;
    auto copies = ComputeCopyDiskInterferenceProbe::make_copies(device_, link, costs->step_ms);
    ComputeCopyDiskInterferenceProbe loaded(runner_, std::move(copies), costs->step_ms, [&] {
      frames_.phase(phase_, 0, 0);
      return step();
    });
    // These copies are all enqueued at once, as no plan does. They slow a sharded step far more than those of a plan,
    // and one that copies its states waits for them.
    if (!costs->sharded() && !moves_states) costs->copy_slowdown = loaded.copy_slowdown();
    loaded.measure_disk(request_.training, *costs);
    write_file(request_.envelope.costs, nlohmann::json(*costs).dump() + "\n");
  } catch (const c10::OutOfMemoryError& error) {
    forgo_costs(program::first_line(error));
  } catch (const IoError& error) {
    forgo_costs(error.what());
  }

  // The measurement is valid without costs.
  void forgo_costs(const std::string& why) {
    std::fprintf(stderr, "what a step costs was not recorded: %s\n", why.c_str());
    if (runner_.start_costs() != nullptr) runner_.finish_costs();
    runner_.drop_gradients();
    device_.empty_cache();
  }

  // By the clock of the machine.
  static int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  }

  // Hooks and profiler are on even if the plan needs no hooks: the difference is the overhead of profiling.
  void trace_steps() {
    phase_ = "trace";
    device_.set_cap(0);  // the measured steps did fit; the profiler's own memory need not
    if (!runner_.prepare_trace()) return;
    auto profiler = profiler::make_profiler(device_);
    trace::Trace trace;
    trace.origin = find_provenance(request_.model, request_.envelope.command);
    trace.strategy = request_.plan.strategy;
    trace.device = result_.device;
    trace.budget_bytes = request_.training.memory_cap_bytes;
    std::vector<double> samples;
    StepPhaseObserver* notes = runner_.start_trace(*profiler, *optimizer_);
    step(notes);
    profiler->start();
    (void)runner_.any_rank(false);  // a barrier: no step waits for another rank's profiler
    trace.start_ns = now_ns() - profiler->now_ns();
    notes->begin_timing();
    for (int i = 0; i < request_.training.traced_steps; ++i) {
      frames_.phase(phase_, i + 1, request_.training.traced_steps);
      samples.push_back(step(notes));
    }
    runner_.finish_trace(trace, result_);
    result_.profiler_overhead = median(std::move(samples)) / result_.step_ms.median - 1;
    if (!request_.envelope.trace.empty()) trace::write_trace(request_.envelope.trace, trace);
    result_.communication.collectives_ms =
        result::measure_collectives(trace, request_.training.traced_steps).collectives_ms;
    if (result_.transfer.out_bytes == 0) return;  // the model's own copies, such as its loss, are not the engine's
    const result::StepHostDeviceCopyStats counted = result_.transfer;
    result_.transfer = result::measure_overlap(trace, request_.training.traced_steps);
    result_.transfer.out_bytes = counted.out_bytes;
    result_.transfer.in_bytes = counted.in_bytes;
    result_.transfer.disk_write_bytes = counted.disk_write_bytes;
    result_.transfer.disk_read_bytes = counted.disk_read_bytes;
    auto link = profiler::probe_link(device_);
    result_.transfer.link_out_gb_per_s = link.out_gb_per_s;
    result_.transfer.link_in_gb_per_s = link.in_gb_per_s;
  }

  void out_of_memory(const c10::OutOfMemoryError& error) {
    const device::AllocatorStats memory = device_.memory();
    const int64_t held = memory.peak_allocated;
    gradients_bytes_ = bytes_of_gradients();
    in_forward_ = runner_.where().starts_with(kForward);
    const std::string said = program::first_line(error);
    const std::optional<int64_t> asked = asked_bytes(said);
    result_.outcome = TrialOutcome::device_oom;
    result_.fragmented = says_fragmented(said);
    result_.reason = "out of device memory in " + phase_ + " (" + runner_.where() + "): tried to allocate " +
                     (asked ? format_bytes(*asked) : said) + " with " + format_bytes(held) + " held at most";
    if (int64_t cap = request_.training.memory_cap_bytes; cap > 0 && phase_ != "reference")
      result_.reason += " and a cap of " + format_bytes(cap);
    std::vector<std::string> parts;
    const std::vector<ForwardBackwardRunner::Owner> owners = runner_.largest_owners();
    for (const auto& owner : owners) parts.push_back(owner.name + " " + format_bytes(owner.bytes));
    if (!parts.empty()) result_.reason += "; the step's largest: " + join(parts, ", ");
    if (said.find(kOfAllocator) != std::string::npos) result_.reason += "; PyTorch says: " + said;
    if (asked) result_.oom = explained(*asked, memory, owners);
  }

  // The activations are gone after the throw: what was allocated is the peak until then.
  result::OutOfMemoryBreakdown explained(int64_t asked, const device::AllocatorStats& memory,
                                         const std::vector<ForwardBackwardRunner::Owner>& owners) const {
    const plan::TrainingSettings& training = request_.training;
    result::OutOfMemoryBreakdown oom;
    oom.device = device_.index();
    oom.step = 1;  // every step of a trial takes the same
    oom.phase = in_forward_ ? result::PeakMemoryTrainingPhase::forward : result::PeakMemoryTrainingPhase::backward;
    oom.checkpointed = request_.plan.places(plan::TensorPlacement::recompute);
    oom.expandable = !request_.envelope.allocator.empty();
    oom.requested_bytes = asked;
    // A cap stands for a device of that size.
    oom.limit_bytes = training.memory_cap_bytes > 0 ? training.memory_cap_bytes : device_.total_bytes();
    oom.total_bytes = oom.limit_bytes;
    oom.allocated_bytes = memory.peak_allocated;
    oom.reserved_bytes = result_.fragmented ? std::max(memory.peak_reserved, oom.allocated_bytes) : oom.allocated_bytes;
    oom.free_bytes = std::max<int64_t>(0, oom.limit_bytes - oom.reserved_bytes);
    const bool on_host = training.shard_offload || request_.plan.offloads_states();
    if (!on_host)
      for (const auto& [name, parameter] : runner_.parameters())
        oom.parameters_bytes += static_cast<int64_t>(parameter.nbytes());
    oom.gradients_bytes = gradients_bytes_;
    if (optimizer_ && !on_host) oom.optimizer_bytes = optimizer_->state_bytes();
    oom.rest_bytes =
        std::max<int64_t>(0, oom.allocated_bytes - oom.parameters_bytes - oom.gradients_bytes - oom.optimizer_bytes);
    oom.stacks = !owners.empty();
    for (const ForwardBackwardRunner::Owner& owner : owners)
      oom.lines.push_back({owner.name, 0, "", "", "", owner.bytes, 1});
    oom.words = {{"checkpoint", "--strategy checkpoint:full"},
                 {"offload", "--strategy offload:stream"},
                 {"batch", "--batch and --accumulate"},
                 {"length", "--seq"},
                 {"loss", "--loss-impl chunked=8"},
                 {"attention", "--attention sdpa"},
                 {"parameters", "--dtype bfloat16"},
                 {"optimizer", "--optimizer adamw_8bit"}};
    return oom;
  }

  int64_t bytes_of_gradients() const {
    int64_t bytes = 0;
    for (const auto& [name, parameter] : runner_.parameters())
      if (parameter.grad().defined() && parameter.grad().layout() == at::kStrided)
        bytes += static_cast<int64_t>(parameter.grad().nbytes());
    return bytes;
  }

  const plan::TrialRequest& request_;
  TrialFrameWriter& frames_;
  ForwardBackwardRunner& runner_;
  device::Device& device_;
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  std::optional<optimizer::OptimizerInBackward> in_backward_;
  TrialMeasurement result_;
  std::string phase_ = "load";
  ReferenceGradientChecker gradients_;
  double last_loss_ = 0;
  int64_t gradients_bytes_ = 0;  // when memory ran out
  bool in_forward_ = false;      // likewise
};

std::unique_ptr<LoadedModelForwardBackwardSession> surveyed(const plan::TrialRequest& request,
                                                            std::vector<std::string>& notes) {
  if (LoadedModelForwardBackwardSession::shapes_suffice(request.model, request.training)) try {
      auto session =
          std::make_unique<LoadedModelForwardBackwardSession>(request, RealOrShapeOnlyTensorMode::shapes_only);
      session->survey();
      return session;
    } catch (const c10::Error&) {
      // Some op has to run, or the model rejects its inputs, which a session with values reports.
    }
  try {
    auto session = std::make_unique<LoadedModelForwardBackwardSession>(request);
    session->survey();
    return session;
  } catch (const c10::OutOfMemoryError&) {  // a trial can still offload the parameters, or says what it lacks
    if (!frontend::probe(request.model).has_config()) throw;
  }
  notes.emplace_back("the model is larger than the GPU's memory, so it was inspected by its shapes");
  auto session = std::make_unique<LoadedModelForwardBackwardSession>(request, RealOrShapeOnlyTensorMode::shapes_only);
  session->survey();
  return session;
}

}  // namespace

TrialMeasurement run_trial(const plan::TrialRequest& request, ForwardBackwardRunner& runner, TrialFrameWriter& frames) {
  return Trial(request, runner, frames).run();
}

void inspect(const plan::TrialRequest& request, TrialFrameWriter& frames) {
  frames.phase("load", 1, 1);
  std::vector<std::string> notes;
  std::unique_ptr<LoadedModelForwardBackwardSession> session = surveyed(request, notes);
  plan::ProgramFacts facts = session->facts();
  facts.notes.insert(facts.notes.end(), notes.begin(), notes.end());
  std::vector<std::string> inputs;
  for (const auto& spec : session->batch().specs) inputs.push_back(plan::to_string(spec));
  const std::string loss = frontend::to_string(session->loss());
  session.reset();  // its parameters count
  if (device::shape_capability(request.training.device) >= 0)
    if (const auto costs = record_shape_costs(request))
      write_file(request.envelope.costs, nlohmann::json(*costs).dump() + "\n");
  frames.send({{"frame", "facts"},
               {"facts", facts},
               {"inputs", inputs},
               {"loss", loss},
               {"origin", find_provenance(request.model, request.envelope.command)}});
}

}  // namespace memtune::trial
