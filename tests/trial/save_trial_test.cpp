// Measures the cost of saves with real steps and a real disk. Figures must be consistent, states complete and failures
// reported.
#include "core/measure/trial/save_trial.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/base/vocabulary.h"
#include "core/engine/state/load.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/plan/rules/strategy.h"
#include "tests/support/run_program.h"
#include "tests/support/training.h"
namespace memtune::tests::save_trial_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidth = 256;
constexpr int64_t kStateBytes = 3 * kWidth * kWidth * 4;  // the matrix and two moments of adamw

// `more_bytes` enlarge the state, so that a save takes much longer than a step.
fs::path write_model(const fs::path& folder, int64_t more_bytes) {
  torch::jit::Module model("Model");
  model.register_parameter("a", (at::randn({kWidth, kWidth}) * 0.1).requires_grad_(), false);
  if (more_bytes > 0) model.register_buffer("more", at::zeros({more_bytes / 4}));
  model.define("def forward(self, x):\n    y = torch.relu(torch.mm(x, self.a))\n    return (y * y).mean()\n");
  model.save((folder / "model.pt").string());
  return folder / "model.pt";
}

struct Bench {
  test::ScratchFolder folder;
  plan::ResumableTrainingRequest request;

  explicit Bench(const std::string& mode, const std::string& strategy = "none", int64_t more_bytes = 0) {
    test_device();
    request.trial.model.path = write_model(folder.path, more_bytes).string();
    request.trial.model.inputs = {plan::parse_input_spec("x:float32[64,256]")};
    request.trial.training.loss = "returned";
    request.trial.training.warmup = 2;
    request.trial.training.steps = 3;
    trial::LoadedModelForwardBackwardSession session(request.trial);
    request.trial.plan = plan::make_plan(plan::Strategy::parse(strategy), session.facts());
    request.trial.plan.saved_min_bytes = request.trial.plan.transfer.min_bytes = 0;
    request.folder = (folder.path / "saving").string();
    request.save = mode;
    request.keep_last = 1;
    fs::create_directories(request.folder);
  }

  result::StateSaveModeMeasurement measure() const {
    static const int sink = dup2(open("/dev/null", O_WRONLY), 3);
    (void)sink;
    trial::TrialFrameWriter frames;
    const auto runner = trial::make_runner(request.trial);
    return trial::measure_saves(request, *runner, frames);
  }

  state::SavedStatesFolder states() const { return state::SavedStatesFolder(request.folder); }
};

// Limits the size of the files that this process writes, while the object lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("every save mode reports consistent figures under each engine and leaves one complete state") {
  for (const std::string& mode : kSaveModes)
    for (const char* strategy : {"none", "offload:stream"}) {
      CAPTURE(mode);
      CAPTURE(strategy);
      const Bench bench(mode, strategy);
      const result::StateSaveModeMeasurement m = bench.measure();
      CHECK(m.mode == mode);
      REQUIRE(m.outcome == result::TrialOutcome::ok);
      CHECK(m.saves == 4);
      CHECK(m.bytes > kStateBytes);
      CHECK(m.bytes < kStateBytes + (1 << 20));
      CHECK(m.blocked_ms > 0);
      CHECK(m.blocked_ms <= m.most_blocked_ms);
      CHECK(m.durable_ms > 0);
      CHECK(m.total_ms >= m.durable_ms);
      CHECK(m.step_ms > 0);
      CHECK(m.load_ms > 0);
      CHECK((m.host_bytes == 0 || m.host_bytes >= kStateBytes));
      CHECK(m.slowdown.has_value() == m.no_slowdown.empty());
      CHECK(bench.states().steps().size() == 1);
      std::set<std::string> names;
      state::load(bench.states(), {},
                  {[&](const state::StateManifest& manifest) {
                     for (const auto& tensor : manifest.tensors) names.insert(tensor.name);
                   },
                   {}});
      CHECK(names.contains("optimizer.a.exp_avg"));
    }
}

TEST_CASE("the sync mode waits for the disk and the async mode copies the state to CPU memory") {
  const result::StateSaveModeMeasurement m = Bench(kSaveModes.front()).measure();
  CHECK(m.durable_ms <= m.blocked_ms);
  CHECK(Bench(kSaveModes.at(1)).measure().host_bytes >= kStateBytes);  // it holds a copy of the state
}

TEST_CASE("every mode except sync counts the steps during a save") {
  for (size_t i = 1; i < kSaveModes.size(); ++i) {
    CAPTURE(kSaveModes[i]);
    const result::StateSaveModeMeasurement m = Bench(kSaveModes[i], "none", int64_t{64} << 20).measure();
    CHECK(m.steps_with_save >= 3);
    CHECK(m.slowdown.value_or(0) > 0.5);
    CHECK(m.blocked_ms < m.durable_ms);
  }
}

TEST_CASE("the requested number of saves is made with at least two steps after each save but the last") {
  Bench bench(kSaveModes.front());
  bench.request.saves = 6;
  CHECK(bench.measure().saves == 6);
  REQUIRE(bench.states().steps().size() == 1);
  CHECK(bench.states().steps().front() >= 2 + 3 + 5 * 2);  // warm-up, steps, two after each save but the last
}

TEST_CASE("a failed save ends the measurement with its reason and a full disk has its own outcome") {
  for (const std::string& mode : kSaveModes) {
    CAPTURE(mode);
    Bench blocked(mode);
    const fs::path other = blocked.states().path(2 + 3);
    fs::create_directories(other.parent_path());
    std::ofstream(other) << "somebody's";
    const result::StateSaveModeMeasurement refused = blocked.measure();
    CHECK(refused.outcome == result::TrialOutcome::disk_error);
    CHECK(refused.reason.find("cannot make the folder") == 0);
    Bench full(mode);
    const FileSizeLimit limit(kStateBytes / 2);
    const result::StateSaveModeMeasurement none = full.measure();
    CHECK(none.outcome == result::TrialOutcome::disk_full);
    CHECK(none.reason.find("(ulimit -f)") != std::string::npos);
    CHECK(full.states().steps().empty());
  }
}

TEST_CASE("a lack of device memory during saves has the outcome device_oom") {
  Bench bench(kSaveModes.front());
  bench.request.trial.training.memory_cap_bytes = kStateBytes;
  const result::StateSaveModeMeasurement m = bench.measure();
  CHECK(m.outcome == result::TrialOutcome::device_oom);
  CHECK(m.reason.find("out of device memory") == 0);
}

}  // namespace memtune::tests::save_trial_test
