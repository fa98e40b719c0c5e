// Why: trials must not depend on the interpreter. A runner of thirty lines with plain autograd, no program, no plan and
// no hooks is measured and compared like any other.
#include "core/measure/trial/forward_backward_runner.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "core/measure/trial/trial.h"
#include "tests/support/out_of_memory_breakdown.h"
#include "tests/support/run_program.h"
#include "tests/support/training.h"
namespace memtune::tests::step_runner_test {
namespace {

class PlainRunner : public trial::ForwardBackwardRunner {
 public:
  PlainRunner() {
    at::manual_seed(1);
    const auto options = at::TensorOptions(device::torch_device(test_device()));
    parameters_ = {{"a", at::randn({8, 8}, options).requires_grad_()},
                   {"b", at::randn({8, 8}, options).requires_grad_()}};
    input_ = at::ones({4, 8}, options);
  }

  device::Device& device() override { return test_device(); }
  const trial::NamedParameters& parameters() const override { return parameters_; }
  StepWork work() const override { return {4, 0}; }
  double untouched_loss() override { return forward().item<double>(); }
  at::Tensor forward_backward() override {
    at::Tensor loss = forward();
    loss.backward();
    return loss.detach();
  }
  at::Tensor untouched_step() override { return forward_backward(); }

 protected:
  at::Tensor forward() const { return input_.mm(parameters_[0].second).tanh().mm(parameters_[1].second).pow(2).mean(); }
  trial::NamedParameters parameters_;
  at::Tensor input_;
};

// A runner whose engine loses the gradient of one parameter.
class LossyRunner final : public PlainRunner {
 public:
  at::Tensor forward_backward() override {
    at::Tensor loss = PlainRunner::forward_backward();
    parameters_[0].second.mutable_grad().zero_();
    return loss;
  }
};

// A runner whose gradients differ from run to run, as with nondeterministic kernels.
class RestlessRunner final : public PlainRunner {
 public:
  explicit RestlessRunner(std::vector<double> noise) : noise_(std::move(noise)) {}
  at::Tensor forward_backward() override {
    at::Tensor loss = PlainRunner::forward_backward();
    if (runs_ < noise_.size()) parameters_[0].second.mutable_grad()[0][0] += noise_[runs_];
    ++runs_;
    return loss;
  }

 private:
  std::vector<double> noise_;
  size_t runs_ = 0;
};

// One of several deterministic ranks, of which another may be nondeterministic.
class RankRunner final : public PlainRunner {
 public:
  explicit RankRunner(bool another_differs) : another_differs_(another_differs) {}
  bool any_rank(bool here) override { return here || another_differs_; }
  at::Tensor forward_backward() override {
    ++steps;
    return PlainRunner::forward_backward();
  }
  int steps = 0;

 private:
  bool another_differs_;
};

class HungryRunner final : public PlainRunner {
 public:
  explicit HungryRunner(std::string text) : text_(std::move(text)) {}
  at::Tensor forward_backward() override {
    if (++steps_ > 3) throw c10::OutOfMemoryError({__func__, __FILE__, 1}, text_);
    return PlainRunner::forward_backward();
  }
  std::string where() const override { return "forward, the fourth"; }
  std::vector<Owner> largest_owners() override { return {{"activations", 3 << 20}}; }

 private:
  std::string text_;
  int steps_ = 0;
};

plan::TrialRequest request(const std::string& strategy, const std::filesystem::path& reference) {
  plan::TrialRequest result;
  result.plan.strategy = strategy;
  result.training.steps = 3;
  result.training.warmup = 1;
  result.training.traced_steps = 1;
  result.envelope.reference = reference;
  return result;
}

result::TrialMeasurement run(trial::ForwardBackwardRunner& runner, const std::string& strategy,
                             const std::filesystem::path& reference, bool only_gradients = false) {
  static const int sink = dup2(open("/dev/null", O_WRONLY), 3);
  (void)sink;
  trial::TrialFrameWriter frames;
  plan::TrialRequest asked = request(strategy, reference);
  asked.envelope.only_gradients = only_gradients;
  return trial::run_trial(asked, runner, frames);
}

struct Reference {
  test::ScratchFolder folder;
  std::filesystem::path path = folder.path / "reference.bin";
};

TEST_CASE("a runner without program and hooks and trace is measured and compared like any other") {
  const Reference reference;
  PlainRunner first, second;
  const auto measured = run(first, "plain", reference.path);
  CHECK(measured.outcome == result::TrialOutcome::ok);
  CHECK(measured.step_ms.samples.size() == 3);
  CHECK(measured.loss.size() == 4);  // the first loss is that of the untouched model
  CHECK(measured.loss.back() < measured.loss.front());
  CHECK(measured.peak_bytes.allocated > measured.floor_bytes);
  CHECK(measured.samples_per_s > 0);
  CHECK(run(second, "other", reference.path).gradients.equal);
}

TEST_CASE("a runner that loses a gradient is a mismatch") {
  const Reference reference;
  PlainRunner plain;
  LossyRunner lossy;
  run(plain, "plain", reference.path, true);
  const auto measured = run(lossy, "lossy", reference.path);
  CHECK(measured.outcome == result::TrialOutcome::mismatch);
  CHECK(measured.reason.find("most in a by") != std::string::npos);
}

TEST_CASE("the noise of a baseline comes from all repetitions and not from the first two") {
  const Reference reference;
  RestlessRunner baseline({0, 1e-3, -3e-3, 2e-3, 1e-3}), near({8e-3}), far({1e-2});
  const auto measured = run(baseline, "none", reference.path);
  CHECK(measured.outcome == result::TrialOutcome::ok);
  CHECK(measured.gradients.max_abs_difference == doctest::Approx(4e-3).epsilon(0.01));
  CHECK(run(near, "near", reference.path).outcome == result::TrialOutcome::ok);
  CHECK(run(far, "far", reference.path).outcome == result::TrialOutcome::mismatch);
}

TEST_CASE("all ranks repeat the baseline if the gradients of one rank are not deterministic") {
  RankRunner alone(false), beside(true);
  const Reference of_alone, of_beside;
  run(alone, "none", of_alone.path);
  run(beside, "none", of_beside.path);
  CHECK(beside.steps == alone.steps + 4);
}

TEST_CASE("out of memory reports the runner's position in the step and the largest owners") {
  HungryRunner hungry("Tried to allocate 1.95 GiB. There is less");
  const auto measured = run(hungry, "plain", "");
  CHECK(measured.outcome == result::TrialOutcome::device_oom);
  CHECK(measured.reason.find("(forward, the fourth): tried to allocate 1.95 GiB") != std::string::npos);
  CHECK(measured.reason.ends_with("; the step's largest: activations 3 MiB"));
  REQUIRE(measured.oom.has_value());
  CHECK(measured.oom->phase == result::PeakMemoryTrainingPhase::forward);
  CHECK(measured.oom->requested_bytes > int64_t{1} << 30);
  CHECK(measured.oom->parameters_bytes > 0);
  REQUIRE(measured.oom->lines.size() == 1);
  CHECK(measured.oom->lines[0].file == "activations");
}

TEST_CASE("the message of CUDA's allocator is quoted whole with its advice") {
  const std::string text = test::out_of_memory_text(8);
  HungryRunner hungry(text);
  const auto measured = run(hungry, "plain", "");
  CHECK(measured.reason.find("tried to allocate 2 GiB") != std::string::npos);
  CHECK(measured.reason.ends_with("activations 3 MiB; PyTorch says: " + text));
}

}  // namespace
}  // namespace memtune::tests::step_runner_test
