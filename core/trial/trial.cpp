#include "core/trial/trial.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/profiler/profiler.h"
#include "core/program/first_line.h"
#include "core/result/overlap.h"
#include "core/trace/file.h"
#include "core/trial/origin.h"
#include "core/trial/session.h"
#include "core/trial/step_trace.h"

namespace memtune::trial {
namespace {

using result::Measurement;
using result::Outcome;

// Kernels whose result does not depend on the order of atomics, for the step that is compared bit for bit. Fresh memory
// is left as it is: LibTorch would fill it with NaN. Attention has such kernels only when lacking ones are an error.
class Deterministic {
 public:
  explicit Deterministic(bool errors) { set(true, errors); }
  ~Deterministic() { set(false, false); }

 private:
  static void set(bool on, bool errors) {
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/!errors);
  }
};

// "9.5e-07": std::to_string would print a small difference as 0.
std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

double to_ms(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

class Trial {
 public:
  Trial(const config::TrialRequest& request, Frames& frames) : request_(request), frames_(frames), session_(request) {
    result_.strategy = request.plan.strategy;
    result_.device = session_.device().name();
    result_.emulated = session_.device().emulated();
    if (!request.plan.keeps_everything()) make_executor();
  }

  Measurement run() {
    try {
      reference();
      session_.device().empty_cache();  // what the allocator keeps would not be capped
      session_.device().set_cap(request_.training.memory_cap_bytes);
      session_.device().reset_peak();
      optimizer_ = make_optimizer(request_.training.optimizer, request_.training.learning_rate, tensors());
      at::manual_seed(request_.training.seed);
      warm_up();
      measure();
      if (request_.training.traced_steps > 0) trace_steps();
    } catch (const c10::OutOfMemoryError& error) {
      out_of_memory(error);
    } catch (const OutOfHostMemory& error) {
      fail(Outcome::host_oom, error);
    } catch (const DiskFull& error) {
      fail(Outcome::disk_full, error);
    } catch (const DiskError& error) {
      fail(Outcome::disk_error, error);
    } catch (const CorruptBlock& error) {
      fail(Outcome::corrupt, error);
    }
    if (result_.outcome == Outcome::ok) judge();
    return std::move(result_);
  }

 private:
  step::Executor* executor() { return executor_ ? &*executor_ : nullptr; }

  void make_executor() {
    const config::TrainingSettings& training = request_.training;
    step::Tiers tiers;
    tiers.host_budget_bytes = training.host_budget_bytes;
    if (request_.plan.places(config::Place::disk))
      tiers.store = std::make_unique<disk::BlockStore>(disk::StoreSettings{.directory = training.scratch,
                                                                           .budget_bytes = training.disk_budget_bytes,
                                                                           .allow_memory = training.scratch_in_memory});
    executor_.emplace(session_.program(), session_.facts(), request_.plan, session_.device(), std::move(tiers));
  }

  void fail(Outcome outcome, const Error& error) {
    result_.outcome = outcome;
    result_.reason = "in " + phase_ + ": " + error.what();
  }

  // Where copies are to be scheduled, one step (the second: optimizer states are there by then) is learned from, and
  // another settles the allocator.
  void warm_up() {
    phase_ = "warmup";
    const bool learn = executor_ && executor_->moves();
    const int steps = std::max(request_.training.warmup, learn ? 3 : 0);
    for (int i = 0; i < steps; ++i) {
      frames_.phase(phase_, i + 1, steps);
      const bool learning = learn && i == 1;
      if (learning) executor_->begin_learning();
      step(executor());
      if (learning) executor_->end_learning();
    }
  }

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> result;
    for (const auto& [name, tensor] : session_.parameters()) result.push_back(tensor);
    return result;
  }

  // Loss and gradients of the untouched model, written when nobody did before, else compared. Not under the cap: the
  // baseline may need more than the card that is emulated has.
  void reference() {
    phase_ = "reference";
    frames_.phase(phase_, 1, 1);
    at::manual_seed(request_.training.seed);
    result_.loss.push_back(session_.untouched_loss(executor()));
    double loss = reference_step(executor());
    if (request_.reference.empty()) return session_.drop_gradients();
    if (std::filesystem::exists(request_.reference)) {
      result_.gradients = compare_with_reference(request_.reference, loss, session_.parameters());
    } else {
      write_reference(request_.reference, request_.plan.strategy, loss, session_.parameters());
      session_.drop_gradients();
      // The same once more: what the model itself does not repeat cannot be asked of a strategy.
      loss = reference_step(executor());
      result_.gradients = compare_with_reference(request_.reference, loss, session_.parameters());
    }
    session_.drop_gradients();
  }

  double reference_step(step::Executor* executor) {
    try {
      return reference_step(executor, deterministic_);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      if (!deterministic_ || !std::strstr(error.what(), "deterministic")) throw;
      deterministic_ = false;  // an op has no such kernel
      session_.drop_gradients();
      return reference_step(executor, deterministic_);
    }
  }

  double reference_step(step::Executor* executor, bool deterministic) {
    Deterministic scope(deterministic);
    at::manual_seed(request_.training.seed);
    return session_.forward_backward(executor, executor).item<double>();
  }

  // Wall time of a whole step: forward, backward, optimizer, the loss read, the device idle.
  double step(step::Executor* executor, StepTrace* trace = nullptr) {
    auto start = std::chrono::steady_clock::now();
    if (trace) trace->begin_forward();
    at::Tensor loss = session_.forward_backward(executor, trace ? trace : static_cast<program::OpObserver*>(executor));
    if (trace) trace->begin_optimizer();
    optimizer_->step();
    last_loss_ = loss.item<double>();
    session_.device().synchronize();
    if (trace) trace->end_step();
    if (!std::isfinite(last_loss_) && result_.outcome == Outcome::ok) {
      result_.outcome = Outcome::nan;
      result_.reason = "the loss is " + std::to_string(last_loss_) + " in " + phase_;
    }
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  void measure() {
    phase_ = "measure";
    device::Device& device = session_.device();
    device.synchronize();
    device.reset_peak();
    result_.floor_bytes = device.memory().allocated;
    const int64_t reruns = executor() ? executor()->reruns() : 0;
    const auto host_time = executor() ? executor()->host_time() : std::chrono::nanoseconds(0);
    std::vector<double> samples;
    for (int i = 0; i < request_.training.steps; ++i) {
      frames_.phase(phase_, i + 1, request_.training.steps);
      samples.push_back(step(executor()));
      result_.loss.push_back(last_loss_);
    }
    device::MemoryUse memory = device.memory();
    result_.peak_bytes = {memory.peak_allocated, memory.peak_reserved, device.used_bytes()};
    result_.step_ms = result::summarize(samples);
    result_.noisy = result::spread(result_.step_ms) > 0.05;
    double seconds = result_.step_ms.median / 1e3;
    result_.samples_per_s = static_cast<double>(session_.batch().samples) / seconds;
    result_.tokens_per_s = static_cast<double>(session_.batch().tokens) / seconds;
    if (!executor()) return;
    result_.engine_ms = to_ms(executor()->host_time() - host_time) / request_.training.steps;
    result_.recomputed_ops = (executor()->reruns() - reruns) / request_.training.steps;
    count_transfers();
    const tier::HostTier& tier = executor()->tier();
    result_.host_bytes = tier.pool().reserved_bytes();
    result_.host_peak_bytes = tier.pool().peak_leased_bytes();
    result_.disk_peak_bytes = tier.peak_disk_bytes();
  }

  // Of the last step: every step moves the same.
  void count_transfers() {
    result::TransferFigures& transfer = result_.transfer;
    transfer.out_bytes = executor_->offload().counters().out_bytes;
    transfer.in_bytes = executor_->offload().counters().in_bytes;
    transfer.disk_write_bytes = executor_->tier().counters().disk_write_bytes;
    transfer.disk_read_bytes = executor_->tier().counters().disk_read_bytes;
  }

  // With hooks and profiler on, also where the plan needs no hooks: what that costs is the price of measuring.
  void trace_steps() {
    phase_ = "trace";
    session_.device().set_cap(0);  // what was measured fits; the profiler's own memory need not
    if (!executor_) make_executor();
    executor_->turn_on_timers();
    auto profiler = profiler::make_profiler(session_.device());
    trace::Trace trace;
    trace.origin = find_origin(request_);
    trace.strategy = request_.plan.strategy;
    trace.device = result_.device;
    trace.budget_bytes = request_.training.memory_cap_bytes;
    std::vector<double> samples;
    step(executor());
    profiler->start();
    const MemoryOwners owners(session_.facts(), session_.parameters(), *optimizer_, *executor_,
                              session_.device().memory().allocated);
    StepTrace step_trace(session_.facts(), session_.device(), *profiler, *executor_, owners);
    for (int i = 0; i < request_.training.traced_steps; ++i) {
      frames_.phase(phase_, i + 1, request_.training.traced_steps);
      samples.push_back(step(executor(), &step_trace));
    }
    step_trace.finish(trace);
    read_timers();
    result_.profiler_overhead = result::summarize(samples).median / result_.step_ms.median - 1;
    if (!request_.trace.empty()) trace::write_trace(request_.trace, trace);
    if (result_.transfer.out_bytes == 0) return;  // the model's own copies (of its loss, say) are not the engine's
    result_.transfer = result::measure_overlap(trace, request_.training.traced_steps);
    count_transfers();
    auto link = profiler::probe_link(session_.device());
    result_.transfer.link_out_gb_per_s = link.out_gb_per_s;
    result_.transfer.link_in_gb_per_s = link.in_gb_per_s;
  }

  // Of the last step; the device is idle.
  void read_timers() {
    const tier::HostTier::Counters& counters = executor_->tier().counters();
    result_.recompute_ms = executor_->rerun_ms();
    result_.stalls = {to_ms(counters.room_stall), to_ms(counters.disk_stall), executor_->copy_stall_ms()};
  }

  // Bit for bit, unless the baseline does not repeat itself; then within twice what it differs by.
  void judge() {
    const auto& gradients = result_.gradients;
    if (!gradients.compared || gradients.equal) return;
    std::string noise_file = request_.reference + ".noise";
    if (gradients.against == request_.plan.strategy) {
      std::ofstream(noise_file) << gradients.max_abs_difference;
      return;
    }
    double noise = 0;
    std::ifstream(noise_file) >> noise;
    if (gradients.max_abs_difference <= 2 * noise) {
      result_.reason = "gradients differ by no more than the baseline's own two runs";
      return;
    }
    result_.outcome = Outcome::mismatch;
    result_.reason = "gradients differ from " + gradients.against + "'s, most in " + gradients.worst + " by " +
                     short_number(gradients.max_abs_difference);
  }

  void out_of_memory(const c10::OutOfMemoryError& error) {
    int64_t held = session_.device().memory().peak_allocated;
    result_.outcome = Outcome::device_oom;
    std::string where = session_.where();
    result_.reason = "out of device memory in " + phase_ + " (" +
                     (session_.in_forward() ? "forward, " + where : std::string("backward or optimizer")) +
                     "): tried to allocate " + asked_for(error) + " with " + format_bytes(held) + " held at most";
    if (int64_t cap = request_.training.memory_cap_bytes; cap > 0 && phase_ != "reference")
      result_.reason += " and a cap of " + format_bytes(cap);
    std::vector<std::string> parts;
    for (const auto& owner : find_owners()) parts.push_back(owner.name + " " + format_bytes(owner.bytes));
    if (!parts.empty()) result_.reason += "; the step's largest: " + join(parts, ", ");
  }

  // "1.95 GiB" out of "Tried to allocate 1.95 GiB. GPU 0 has ...", or out of a count of bytes.
  static std::string asked_for(const c10::OutOfMemoryError& error) {
    std::string text = program::first_line(error);
    std::string key = "ried to allocate ";
    size_t begin = text.find(key);
    if (begin == std::string::npos) return text;
    text = text.substr(begin + key.size());
    size_t number = text.find_first_not_of("0123456789.");
    size_t end = text.find_first_not_of("KMGTiB", number + 1);
    if (text.compare(number, 6, " bytes") == 0) return format_bytes(std::stoll(text.substr(0, number)));
    return text.substr(0, end);
  }

  // At the throw the values are gone already: the forward is run once more, up to the same end, and asked after each
  // op.
  std::vector<step::Executor::Owner> find_owners() {
    session_.drop_gradients();
    session_.device().empty_cache();
    executor_.reset();
    make_executor();
    Last last{*executor_};
    try {
      session_.forward_backward(&*executor_, &last);
    } catch (const c10::OutOfMemoryError&) {
    }
    session_.drop_gradients();
    return last.owners;
  }

  struct Last final : program::OpObserver {
    explicit Last(step::Executor& executor) : executor(executor) {}
    void before(const program::Op& op, const program::Stack& inputs) override { executor.before(op, inputs); }
    void after(const program::Op& op, const program::Stack& outputs) override {
      executor.after(op, outputs);
      owners = executor.largest_owners(3);
    }
    step::Executor& executor;
    std::vector<step::Executor::Owner> owners;
  };

  const config::TrialRequest& request_;
  Frames& frames_;
  Session session_;
  std::optional<step::Executor> executor_;
  std::unique_ptr<Optimizer> optimizer_;
  Measurement result_;
  std::string phase_ = "load";
  bool deterministic_ = true;
  double last_loss_ = 0;
};

}  // namespace

Measurement run_trial(const config::TrialRequest& request, Frames& frames) {
  frames.phase("load", 1, 1);
  return Trial(request, frames).run();
}

void inspect(const config::TrialRequest& request, Frames& frames) {
  frames.phase("load", 1, 1);
  Session session(request);
  session.survey();
  config::ProgramFacts facts = session.facts();
  std::vector<std::string> inputs;
  for (const auto& spec : session.batch().specs) inputs.push_back(config::to_string(spec));
  frames.send(
      {{"frame", "facts"}, {"facts", facts}, {"inputs", inputs}, {"loss", frontend::to_string(session.loss())}});
}

}  // namespace memtune::trial
