// Why: a resumed run must equal a run that was never stopped, in every bit of every loss and of its state, under each
// plan. The model has everything that could differ: dropout, batch statistics, a counter and optimizer states.
#include "core/measure/trial/training_run.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "core/base/vocabulary.h"
#include "core/engine/state/load.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/measure/trial/training_state_collector_and_loader.h"
#include "core/plan/rules/strategy.h"
#include "tests/support/run_program.h"
#include "tests/support/state_runner.h"
#include "tests/support/training.h"
namespace memtune::tests::training_run_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBlock = R"(
def forward(self, x):
    y = torch.dropout(torch.relu(torch.mm(x, self.a)), 0.3, True)
    y = torch.batch_norm(y, None, None, self.mean, self.variance, True, 0.1, 1e-5, False)
    return x + torch.mm(y, self.b)
)";

constexpr const char* kForward = R"(
def forward(self, x):
    self.calls = self.calls + 1
    self.seen[0].add_(1)
    self.k.data.add_(1)
    x = self.block0.forward(x) * (1 + 0.01 * self.calls)
    x = self.block1.forward(x) + 0.001 * self.seen[0] + 0.001 * self.k
    return (x * x).mean()
)";

// Writes a model file with every kind of state.
fs::path write_model(const fs::path& folder, bool other = false) {
  constexpr int width = 8;
  at::manual_seed(3);
  torch::jit::Module model("Model");
  for (const char* name : {"block0", "block1"}) {
    torch::jit::Module block("Block");
    block.register_attribute("training", c10::BoolType::get(), true);
    block.register_parameter("a", (at::randn({width, width}) * 0.4).requires_grad_(), false);
    block.register_parameter("b", (at::randn({width, width}) * 0.4).t().requires_grad_(), false);  // transposed strides
    block.register_buffer("mean", at::zeros({width}));
    block.register_buffer("variance", at::ones({width}));
    block.define(kBlock);
    model.register_module(name, block);
  }
  for (int i = 0; other && i < 9; ++i) model.register_parameter("l" + std::to_string(i), at::zeros({1}), false);
  model.register_parameter("k", at::zeros({other ? 1 : width}),
                           false);  // like a momentum encoder: frozen, and written in forward
  model.register_attribute("calls", c10::IntType::get(), 0);
  model.register_attribute("seen", c10::ListType::ofTensors(), std::vector<at::Tensor>{at::zeros({1})});
  model.define(kForward);
  model.save((folder / "model.pt").string());
  return folder / "model.pt";
}

plan::ResumableTrainingRequest request(const fs::path& folder, const fs::path& model, const std::string& strategy,
                                       int steps) {
  plan::ResumableTrainingRequest request;
  request.trial.model.path = model.string();
  request.trial.model.inputs = {plan::parse_input_spec("x:float32[4,8]")};
  request.trial.training.loss = "returned";
  request.trial.training.blocks = "block*";
  request.trial.training.learning_rate = 0.01;
  request.trial.training.steps = steps;
  request.trial.training.scratch = folder.string();
  request.trial.training.scratch_in_memory = true;
  trial::LoadedModelForwardBackwardSession session(request.trial);
  request.trial.plan = plan::make_plan(plan::Strategy::parse(strategy), session.facts());
  request.trial.plan.saved_min_bytes = request.trial.plan.transfer.min_bytes = 0;
  request.folder = folder.string();
  return request;
}

result::ResumableTrainingResult train(const plan::ResumableTrainingRequest& request) {
  static const int sink = dup2(open("/dev/null", O_WRONLY), 3);
  (void)sink;
  trial::TrialFrameWriter frames;
  const auto runner = trial::make_runner(request.trial);
  return trial::train(request, *runner, frames);
}

// The checksum of every tensor of a saved state.
std::map<std::string, std::string> contents(const fs::path& run, int64_t step) {
  std::map<std::string, std::string> hashes;
  state::load(state::SavedStatesFolder(run), step,
              {[&](const state::StateManifest& manifest) {
                 for (const auto& tensor : manifest.tensors) hashes[tensor.name] = tensor.hash;
               },
               {}});
  return hashes;
}

std::string refusal(const plan::ResumableTrainingRequest& request) {
  try {
    train(request);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST_CASE("a resumed run has the losses and the state of an uninterrupted one under every strategy") {
  test_device();
  test::ScratchFolder scratch;
  const fs::path model = write_model(scratch.path);
  std::vector<double> first;
  for (const std::string& strategy : all_strategies()) {
    CAPTURE(strategy);
    const fs::path whole = scratch.path / ("whole " + strategy), parts = whole.string() + " in parts",
                   waiting = whole.string() + " waiting";
    for (const fs::path& folder : {whole, parts, waiting}) fs::create_directories(folder);
    const result::ResumableTrainingResult without = train(request(scratch.path, model, strategy, 9));
    plan::ResumableTrainingRequest asked = request(whole, model, strategy, 9);
    asked.save_every = 3;
    asked.save = "async";
    const result::ResumableTrainingResult once = train(asked);
    CHECK(once.loss == without.loss);  // saves change no loss
    if (first.empty()) first = once.loss;
    CHECK(once.loss == first);
    CHECK(once.saves.size() == 3);
    CHECK(once.loss[1] != once.loss[2]);

    asked.folder = waiting.string();
    asked.save = "sync";
    train(asked);  // its states are compared with those of the async run
    for (const int64_t step : {3, 6, 9}) CHECK(contents(waiting, step) == contents(whole, step));

    asked.folder = parts.string();
    asked.save = "overlapped";
    asked.trial.training.steps = 4;
    train(asked);
    asked.trial.training.steps = 9;
    asked.resume = true;
    const result::ResumableTrainingResult resumed = train(asked);
    CHECK(resumed.first_step == 3);
    CHECK(resumed.loss == once.loss);
    for (const int64_t step : {6, 9}) CHECK(contents(parts, step) == contents(whole, step));
  }
}

TEST_CASE("a saved state names parameters and buffers and attributes and optimizer and random state and losses") {
  test_device();
  test::ScratchFolder scratch;
  plan::ResumableTrainingRequest asked = request(scratch.path, write_model(scratch.path), "none", 2);
  asked.save_every = 2;
  train(asked);
  const auto saved = contents(scratch.path, 2);
  for (const char* name :
       {"block0.a", "block0.mean", "block1.variance", "calls", "seen.0", "optimizer.block1.b.exp_avg",
        "optimizer.block1.b.exp_avg_sq", "optimizer.block1.b.step", "random.cpu", "run.loss"}) {
    CAPTURE(name);
    CHECK(saved.contains(name));
  }
  CHECK(saved.size() == 5 + 4 + 2 + 12 + 2);
}

TEST_CASE("memory that a forward writes is copied before the next forward even via .data or a shared buffer") {
  test_device();
  test::ScratchFolder scratch;
  const plan::ResumableTrainingRequest asked = request(scratch.path, write_model(scratch.path), "none", 2);
  const auto runner = trial::make_runner(asked.trial);
  program::ModelParametersAndBuffers model = runner->state();
  for (const auto& [name, parameter] : model.parameters)
    if (name == "block1.a") model.buffers.emplace_back("shares", parameter.detach());
  const auto optimizer = optimizer::make_optimizer({"sgd", 0.1}, {});
  test::StateRunner saved(model, runner->device());
  trial::TrainingStateCollectorAndLoader state(saved, *optimizer);
  state.set_written(runner->written_memory());
  std::set<std::string> first;
  for (const state::TensorToSave& part : state.parts({}))
    if (part.changes_in_forward) first.insert(part.spec.name);
  CHECK(first.contains("k"));
  CHECK(first.contains("shares"));
  CHECK(first.contains("block1.a"));
  CHECK(first.contains("block0.b"));  // a copy, because its strides differ from the file's order
  CHECK_FALSE(first.contains("block0.a"));
}

TEST_CASE("a state of another model is rejected with the difference and a damaged one with the last good step") {
  test_device();
  test::ScratchFolder scratch, other;
  plan::ResumableTrainingRequest asked = request(scratch.path, write_model(scratch.path), "none", 4);
  asked.save_every = 2;
  train(asked);
  CHECK(refusal(asked).find("has saved states up to step 4; continue with --resume") != std::string::npos);
  asked.resume = true;
  plan::ResumableTrainingRequest another = asked;
  another.trial.model.path = write_model(other.path, true).string();
  CHECK(refusal(another).find("'k' is F32[8] there and F32[1] here; 'l0' is nothing there") != std::string::npos);
  CHECK(refusal(another).find("; 2 more") != std::string::npos);
  const fs::path data = state::SavedStatesFolder(scratch.path).path(4) / state::kDataFile;
  std::fstream(data, std::ios::in | std::ios::out | std::ios::binary).seekp(5000).put('x');
  CHECK(refusal(asked).find("the newest that is whole is of step 2") != std::string::npos);
  asked.from = 2;
  const result::ResumableTrainingResult resumed = train(asked);
  CHECK(resumed.first_step == 2);
  CHECK(resumed.saves.at(0).error == "");  // it replaced the damaged state
  asked.from.reset();
  CHECK(refusal(asked) == "");
}

TEST_CASE("a resumed run must keep its training settings but may change plan and scratch folder and steps") {
  test_device();
  test::ScratchFolder scratch;
  const fs::path model = write_model(scratch.path);
  plan::ResumableTrainingRequest asked = request(scratch.path, model, "none", 2);
  asked.save_every = 2;
  train(asked);
  asked.resume = true;
  using Change = std::function<void(plan::TrainingSettings&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"--optimizer adamw there and sgd here", [](auto& training) { training.optimizer = "sgd"; }},
      {"--lr 0.01 there and 0.25 here", [](auto& training) { training.learning_rate = 0.25; }},
      {"--accumulate 1 there and 2 here", [](auto& training) { training.accumulate = 2; }},
      {"--seed 0 there and 7 here", [](auto& training) { training.seed = 7; }},
      {"--autocast none there and bfloat16 here", [](auto& training) { training.autocast = "bfloat16"; }},
      {"--dtype none there and bfloat16 here; --max-grad-norm 0.0 there and 1.0 here", [](auto& training) {
         training.dtype = "bfloat16";
         training.max_grad_norm = 1;
       }}};
  for (const auto& [told, change] : changes) {
    plan::ResumableTrainingRequest other = asked;
    change(other.trial.training);
    CHECK(refusal(other) == "the saved state is of another training: " + told);
  }
  plan::ResumableTrainingRequest longer = request(scratch.path, model, "checkpoint:full", 4);
  longer.resume = true;
  longer.keep_last = 1;
  longer.trial.training.host_budget_bytes = int64_t{1} << 30;
  CHECK(train(longer).first_step == 2);
}

TEST_CASE("a failed save is reported and the run continues and keeps the newest states") {
  test_device();
  std::string how;
  for (const std::string& mode : kSaveModes) SUBCASE(mode.c_str()) {
      how = mode;
    }
  test::ScratchFolder scratch;
  plan::ResumableTrainingRequest asked = request(scratch.path, write_model(scratch.path), "none", 5);
  asked.save_every = 1;
  asked.save = how;
  asked.keep_last = 2;
  const state::SavedStatesFolder folder(scratch.path);
  fs::create_directories(folder.path(3));
  std::ofstream(folder.path(3) / "mine") << "mine";
  const result::ResumableTrainingResult result = train(asked);
  REQUIRE(result.saves.size() == 5);
  CHECK(result.saves[2].error.find("cannot make the folder") == 0);
  CHECK(result.saves[3].error == "");
  CHECK(result.loss.size() == 5);
  CHECK(folder.steps() == std::vector<int64_t>{4, 5});
}

TEST_CASE("SIGTERM saves and ends the run and it resumes from there") {
  test_device();
  test::ScratchFolder scratch, other;
  const fs::path model = write_model(scratch.path);
  plan::ResumableTrainingRequest asked = request(scratch.path, model, "none", 1'000'000);
  std::signal(SIGTERM, SIG_IGN);  // ignored until the run installs its handler
  std::thread killer([] {
    struct sigaction now = {};
    while (sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == SIG_IGN)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::kill(::getpid(), SIGTERM);
  });
  const result::ResumableTrainingResult stopped = train(asked);
  killer.join();
  std::signal(SIGTERM, SIG_DFL);
  CHECK(stopped.stopped);
  REQUIRE(stopped.loss.size() > 1);
  const auto steps = static_cast<int>(stopped.loss.size());
  CHECK(state::SavedStatesFolder(scratch.path).steps() == std::vector<int64_t>{steps});
  asked.resume = true;
  asked.trial.training.steps = steps + 3;
  const result::ResumableTrainingResult whole = train(request(other.path, model, "none", steps + 3));
  CHECK(train(asked).loss == whole.loss);
}

}  // namespace
}  // namespace memtune::tests::training_run_test
