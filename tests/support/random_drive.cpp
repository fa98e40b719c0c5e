#include "tests/support/random_drive.h"

#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/model/ops/autocast.h"
#include "tests/support/cpu_memory.h"
#include "tests/support/queue_device.h"
#include "tests/support/random_plan.h"
#include "tests/support/training.h"

namespace memtune::tests {
namespace {

using c10::IValue;

constexpr char kTorchScript[] = "TorchScript";

struct Sabotage : std::runtime_error {
  Sabotage() : std::runtime_error("an op raised, as it was told to") {}
};

// Passes ops to the engine, and makes one of them throw: before it runs, after it has run and saved tensors, or in its
// backward.
class Saboteur final : public program::OpObserver {
 public:
  enum class When { never, before, after, backward };
  Saboteur(program::OpObserver* engine, When when, uint64_t op) : engine_(engine), when_(when), left_(op) {}

  void before(const program::Op& op, const program::Stack& inputs) override {
    ++ops;
    if (engine_) engine_->before(op, inputs);
    if (when_ == When::before && left_ == 0) throw Sabotage();
  }
  void after(const program::Op& op, const program::Stack& outputs) override {
    if (when_ == When::after && left_ == 0) throw Sabotage();
    if (engine_) engine_->after(op, outputs);
    if (left_ > 0)
      --left_;
    else if (when_ == When::backward)
      trap(outputs);
  }
  uint64_t ops = 0;

 private:
  void trap(const program::Stack& outputs) {
    for (const IValue& output : outputs) {
      if (!output.isTensor() || !output.toTensor().requires_grad() || output.toTensor().is_leaf()) continue;
      output.toTensor().register_hook([](const at::Tensor&) { throw Sabotage(); });
      when_ = When::never;
      return;
    }
  }
  program::OpObserver* engine_;
  When when_;
  uint64_t left_;
};

ops::AutocastState autocast_of(bool used) {
  if (used) return {true, at::kBFloat16};
  return ops::AutocastState::now(device::torch_device(test_device()).type());
}

c10::Device device_of_poisoned_memory() {
  if (test_device().emulated()) poison_cpu_memory();
  return device::torch_device(test_device());
}

std::string bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "";
  const at::Tensor bytes = tensor.detach().cpu().contiguous();
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

std::string difference(const Seen& expected, const Seen& seen) {
  for (size_t i = 0; i < std::min(expected.size(), seen.size()); ++i) {
    const auto& [name, bytes] = expected[i];
    if (seen[i].first != name)
      return seen[i].first + " instead of " + name + (seen[i].first == "error" ? ": " + seen[i].second : "");
    if (seen[i].second == bytes) continue;
    if (bytes.empty() || seen[i].second.empty()) return name + (bytes.empty() ? " is there" : " is missing");
    return name + " differs";
  }
  return expected.size() == seen.size() ? "" : "less or more was seen";
}

}  // namespace

std::string to_string(Mode mode) {
  static const char* const kNames[kModes] = {"one step",
                                             "two steps",
                                             "backward twice",
                                             "two losses",
                                             "an op raises in the forward",
                                             "an op raises in the backward",
                                             "evaluation between two steps",
                                             "evaluation between forward and backward",
                                             "a graph without backward"};
  return kNames[static_cast<size_t>(mode)];
}

Mode Placement::mode() const { return static_cast<Mode>(Random(seed).below(kModes)); }

std::string Placement::text() const {
  return (strategy.empty() ? "random plan " + std::to_string(seed) : strategy) + ", " + to_string(mode());
}

std::vector<Placement> placements(uint64_t seed) {
  Random random(seed ^ 0x9E3779B97F4A7C15u);
  std::vector<Placement> result = {{kTorchScript, 0}};
  for (const std::string& strategy : all_strategies()) result.push_back({strategy, random.next()});
  for (int i = 0; i < 4; ++i) result.push_back({"", random.next()});
  return result;
}

// One run of steps. It records the same results with and without an engine, including errors.
class Driver {
 public:
  using When = Saboteur::When;

  Driver(Subject& subject, step::ActivationPlanExecutor* executor)
      : subject_(subject), executor_(executor), interpreter_(subject.program_), sharded_(subject.sharded_.get()) {
    interpreter_.set_parameters(sharded_);
    if (executor) executor->set_parameters(sharded_);
  }

  Seen drive(Mode mode, uint64_t choice) {
    reset();
    choice_ = choice;
    switch (mode) {
      case Mode::step: step(); break;
      case Mode::two_steps: step(), learn(), step(); break;
      case Mode::backward_twice: step(Walk::twice); break;
      case Mode::two_losses: step(Walk::both_losses); break;
      case Mode::forward_raises: step(Walk::once, choice & 1 ? When::before : When::after), step(); break;
      case Mode::backward_raises: step(Walk::once, When::backward), step(); break;
      case Mode::evaluation_between: step(), learn(), evaluate(), step(); break;
      case Mode::evaluation_inside: step(Walk::after_evaluation); break;
      case Mode::dropped: step(Walk::none), step(); break;
    }
    clear_gradients();
    return std::move(seen_);
  }

  // Gradients are those of whole parameters, combined over all ranks.
  Seen drive_joined(int steps) {
    reset();
    joined_ = true;
    for (int i = 0; i < steps; ++i) step(), learn();
    clear_gradients();
    return std::move(seen_);
  }

  // Runs it with TorchScript's own interpreter, which memtune's interpreter must equal.
  Seen drive_script() {
    torch::jit::setGraphExecutorOptimize(false);  // optimized it would add gradients in another order
    script_ = true;
    Seen seen = drive(Mode::step, 0);
    torch::jit::setGraphExecutorOptimize(true);
    return seen;
  }
  uint64_t ops() const { return ops_; }

 private:
  enum class Walk { none, once, twice, both_losses, after_evaluation };
  struct Losses {
    at::Tensor first, second;
  };

  void reset() {
    at::NoGradGuard no_grad;
    at::manual_seed(subject_.source_.seed + 7919 * static_cast<uint64_t>(subject_.rank_.number()));
    for (const auto& [tensor, before] : subject_.state_) tensor.copy_(before);
    clear_gradients();
  }
  void clear_gradients() {
    for (auto& [name, parameter] : subject_.parameters_) parameter.mutable_grad().reset();
  }

  void learn() {
    const at::NoGradGuard no_grad;
    for (auto& [name, parameter] : subject_.parameters_)
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.125);
  }

  void see(const std::string& name, const std::string& bytes) { seen_.emplace_back(name, bytes); }
  void see(const std::string& name, const at::Tensor& tensor) { see(name, bytes_of(tensor)); }

  std::vector<IValue> make_inputs() {
    const std::vector<at::Tensor> inputs = subject_.inputs(steps_++);
    return {inputs.begin(), inputs.end()};
  }

  Losses forward(const std::vector<IValue>& inputs, step::ActivationPlanExecutor* executor, When when = When::never) {
    Saboteur observer(executor, when, subject_.ops_ ? (choice_ >> 8) % subject_.ops_ : 0);
    const ops::AutocastScope autocast(device::torch_device(test_device()).type(),
                                      autocast_of(subject_.source_.autocast));
    if (executor) executor->begin_step();
    if (sharded_) sharded_->begin_forward();
    const autograd::SavedTensorHooksScope hooks(executor);
    const IValue answer = script_ ? subject_.model_.module.forward(inputs) : interpreter_.run(inputs, &observer);
    if (executor) executor->end_forward();
    ops_ = observer.ops;
    const auto& losses = answer.toTupleRef().elements();
    return {losses[0].toTensor(), losses[1].toTensor()};
  }

  void step(Walk walk = Walk::once, When when = When::never) {
    if (failed_) return;
    clear_gradients();
    if (sharded_) sharded_->begin_step();
    const std::vector<IValue> inputs = make_inputs();
    try {
      const Losses losses = forward(inputs, executor_, when);
      see("loss", losses.first);
      see("second loss", losses.second);
      backward(losses, walk);
      if (joined_ && !sharded_) subject_.take_mean_gradients();
    } catch (const Sabotage&) {
      see("the op that raised", "");
    } catch (const std::exception& error) {
      see_error(error);
    }
    see_everything(subject_.source_.input_needs_grad ? inputs[0].toTensor().grad() : at::Tensor());
  }

  void see_error(const std::exception& error) {
    failed_ = true;
    if (sharded_) sharded_->drop();
    const std::string text = error.what();
    const bool refused = text.find("modified by an inplace operation") != std::string::npos;
    see(refused ? "refusal" : "error", refused ? "" : text.substr(0, text.find('\n')));
  }

  void backward(const Losses& losses, Walk walk) {
    if (walk == Walk::none) return;
    if (walk == Walk::after_evaluation) evaluate_beside();
    const bool second = losses.second.requires_grad();
    if (walk == Walk::twice || (walk == Walk::both_losses && second)) backward(losses.first, /*again=*/true);
    backward(walk == Walk::both_losses && second ? losses.second : losses.first, /*again=*/false);
  }

  void backward(const at::Tensor& loss, bool again) {
    if (sharded_) sharded_->begin_backward();
    autograd::backward(loss, again);
    if (sharded_) sharded_->end_backward();
  }

  void evaluate() {
    if (failed_) return;
    const at::NoGradGuard no_grad;
    if (sharded_) sharded_->begin_step();
    see("evaluation", forward(make_inputs(), executor_).first);
  }

  // The model's state is restored without notice to autograd: nothing else may change it while a graph is alive.
  void evaluate_beside() {
    std::vector<at::Tensor> now;
    for (const at::Tensor& buffer : subject_.model_.module.buffers()) now.push_back(buffer.clone());
    {
      const at::NoGradGuard no_grad;
      see("evaluation", forward(make_inputs(), nullptr).first);
    }
    auto before = now.begin();
    for (const at::Tensor& buffer : subject_.model_.module.buffers()) buffer.variable_data().copy_(*before++);
  }

  void see_everything(const at::Tensor& input_gradient) {
    see("gradient of x", input_gradient);
    see_gradients();
    for (const at::Tensor& buffer : subject_.model_.module.buffers()) see("a buffer", buffer);
    see("generator", at::globalContext().defaultGenerator(device::torch_device(test_device())).get_state());
  }

  void see_gradients() {
    if (joined_ && !failed_) {
      for (const auto& [name, gradient] : subject_.joined_gradients()) see("gradient of " + name, gradient);
      return;
    }
    for (const auto& [name, parameter] : subject_.parameters_) see("gradient of " + name, parameter.grad());
  }

  Subject& subject_;
  step::ActivationPlanExecutor* executor_;
  program::Interpreter interpreter_;
  shard::ShardedParameters* sharded_;
  bool script_ = false, failed_ = false, joined_ = false;
  int steps_ = 0;
  uint64_t choice_ = 0, ops_ = 0;
  Seen seen_;
};

Subject::Subject(const RandomProgram& source, Rank rank)
    : source_(source),
      rank_(rank),
      model_(build(source, device_of_poisoned_memory())),
      program_(tests::lower(model_.module, frontend::LossKind::none, "", device::torch_device(test_device()))),
      facts_(program::facts(program_, program::find_blocks(program_, "block*"))) {
  for (const auto& parameter : model_.module.named_parameters())
    if (!rank_.group) parameters_.emplace_back(parameter.name, parameter.value);
  if (rank_.group) parameters_ = program_.state.parameters;
  for (const at::Tensor& buffer : model_.module.buffers()) state_.emplace_back(buffer, buffer.clone());
  for (const auto& [name, parameter] : parameters_) state_.emplace_back(parameter, parameter.detach().clone());
  Driver plain(*this, nullptr);
  const Seen& seen = expected_[{Mode::step, 0}] = plain.drive(Mode::step, 0);
  ops_ = plain.ops();
  for (const auto& [name, bytes] : seen) {
    if (name == "error") throw DoesNotRun(bytes);
    refused_ = refused_ || name == "refusal";
  }
}

// x, y and ids of this rank.
std::vector<at::Tensor> Subject::inputs(int step) const {
  const int rank = rank_.number();
  const at::Tensor x = (model_.inputs[0].roll(rank, 0) * (1 - 0.25 * rank) + 0.25 * step).detach();
  return {x.requires_grad_(source_.input_needs_grad), model_.inputs[1] + 0.5 * rank, (model_.inputs[2] + rank) % kRows};
}

plan::Plan Subject::plan(const Placement& placement) const {
  if (placement.strategy.empty()) return random_plan(program_, facts_, placement.seed);
  plan::Plan plan = plan::make_plan(plan::Strategy::parse(placement.strategy), facts_);
  plan.saved_min_bytes = plan.transfer.min_bytes = 0;
  return plan;
}

const Seen& Subject::expected(Mode mode, uint64_t choice) {
  const bool chooses = mode == Mode::forward_raises || mode == Mode::backward_raises;
  auto [found, missing] = expected_.try_emplace({mode, chooses ? choice : 0});
  if (missing) found->second = Driver(*this, nullptr).drive(mode, choice);
  return found->second;
}

Seen Subject::drive_joined(int steps) { return Driver(*this, nullptr).drive_joined(steps); }

std::string Subject::failure(const Placement& placement) {
  if (placement.strategy == kTorchScript) {
    const Seen& expected = this->expected(Mode::step, 0);
    const Seen seen = Driver(*this, nullptr).drive_script();
    // With inlined calls it drops a random write whose result is never read.
    const bool dropped = source_.text().find("dropout_(") != std::string::npos && seen.back() != expected.back();
    return dropped ? "" : difference(expected, seen);
  }
  Random random(placement.seed);
  const Seen& expected = this->expected(placement.mode(), placement.seed);
  const plan::Plan plan = this->plan(placement);
  QueueDevice late(QueueDevice::Compute::caller, random.one_in(2) ? &random : nullptr);
  device::Device& device = test_device().emulated() && random.one_in(2) ? late : test_device();
  const int64_t floor = device_bytes();
  step::ActivationPlanExecutor executor(program_, facts_, plan, device, test_tiers(plan));
  const Seen seen = Driver(*this, &executor).drive(placement.mode(), placement.seed);
  const std::string different = difference(expected, seen);
  return different.empty() ? held(executor, floor) : different;
}

// Without parameters that stay gathered.
int64_t Subject::device_bytes() const {
  return test_device().memory().allocated - (sharded_ ? sharded_->gathered_now_bytes() : 0);
}

// Memory that the step still holds. Writes to disk whose data is no longer needed may still be running.
std::string Subject::held(step::ActivationPlanExecutor& executor, int64_t floor) const {
  constexpr int kMaxTurns = 1000;
  int64_t in_host = 0, on_disk = 0, on_device = 0;
  for (int turn = 0; turn < kMaxTurns; ++turn) {
    executor.begin_step();  // also frees the tensors of a forward that threw
    in_host = executor.tier().pool().leased_bytes();
    on_disk = executor.tier().disk_bytes();
    on_device = device_bytes() - floor;
    if (sharded_) on_device = std::max<int64_t>(0, on_device);  // a collective frees its last few bytes asynchronously
    if (in_host == 0 && on_disk == 0 && on_device == 0) return "";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return "held afterwards: " + std::to_string(in_host) + " bytes of host memory, " + std::to_string(on_disk) +
         " on the disk, " + std::to_string(on_device) + " of the device";
}

}  // namespace memtune::tests
