// Every failure of a trial must become an outcome with a reason, never an exception. The outcome `mismatch` must be
// reachable.
#include "core/measure/trial/trial.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/plan/request/reference_file.h"
#include "core/plan/rules/strategy.h"
#include "core/record/trace/file.h"
#include "tests/support/rounding.h"
#include "tests/support/run_program.h"
#include "tests/support/training.h"
namespace memtune::tests::trial_test {
namespace {

namespace fs = std::filesystem;
using result::TrialOutcome;

using Folder = test::ScratchFolder;

plan::TrialRequest request(const std::string& strategy = "none") {
  test_device();
  plan::TrialRequest result;
  result.model.profile = std::string(find_profile("models", "tiny").json);
  result.model.inputs = {plan::parse_input_spec("input_ids:int64[2,64]<256")};
  result.training.loss = "causal_lm";
  result.training.steps = 2;
  result.training.warmup = 1;
  result.training.traced_steps = 1;
  trial::LoadedModelForwardBackwardSession session(result);
  result.plan = plan::make_plan(plan::Strategy::parse(strategy), session.facts());
  result.plan.saved_min_bytes = result.plan.transfer.min_bytes = 0;
  return result;
}

// Frames go to stdout if file descriptor 3 is closed. This discards them.
result::TrialMeasurement run(const plan::TrialRequest& request) {
  static const int sink = dup2(open("/dev/null", O_WRONLY), 3);
  (void)sink;
  trial::TrialFrameWriter frames;
  const auto runner = trial::make_runner(request);
  return trial::run_trial(request, *runner, frames);
}

int64_t highest(const trace::Trace& trace) {
  return std::ranges::max(trace.memory, {}, &trace::AllocatedBytesSample::allocated_bytes).allocated_bytes;
}

TEST_CASE("a successful trial reports its measurements") {
  Folder folder;
  auto none = request();
  none.envelope.reference = folder.path / "reference.bin";
  none.envelope.trace = folder.path / "trace.mtt";
  none.envelope.costs = folder.path / "costs.json";
  none.training.scratch = folder.path;
  none.training.scratch_in_memory = true;  // the temporary folder may be a tmpfs
  auto baseline = run(none);
  CHECK(baseline.outcome == TrialOutcome::ok);
  CHECK(baseline.gradients.equal);  // its two runs have the same bits
  CHECK(baseline.loss.size() == 3);
  CHECK(baseline.loss[0] == doctest::Approx(5.55).epsilon(0.02));  // ln 256 with random weights
  CHECK(baseline.step_ms.samples.size() == 2);
  CHECK(baseline.peak_bytes.allocated > baseline.floor_bytes);
  CHECK(baseline.transfer.out_bytes == 0);
  const auto costs = parse_json(read_file(none.envelope.costs)).get<plan::RecordedStepCosts>();
  CHECK(costs.step_ms == baseline.step_ms.median);
  CHECK(costs.disk_write_gb_per_s > 0);
  CHECK(costs.disk_read_gb_per_s > 0);
  int64_t most = costs.before_peak_bytes;
  for (const auto& moment : costs.moments) most = std::max(most, moment.peak_bytes);
  CHECK(most == baseline.peak_bytes.allocated);
  auto trace = trace::read_trace(none.envelope.trace);
  CHECK_FALSE(trace.cut());
  CHECK(trace.trace.events.size() > 100);
  CHECK(trace.trace.memory.size() > 100);
  CHECK(highest(trace.trace) == baseline.peak_bytes.allocated);

  auto offload = request("offload:stream");
  offload.envelope.reference = none.envelope.reference;
  auto moved = run(offload);
  CHECK(moved.outcome == TrialOutcome::ok);
  CHECK(moved.gradients.compared);
  CHECK(moved.gradients.equal);
  CHECK(moved.gradients.against == "none");
  CHECK(moved.loss[0] == baseline.loss[0]);
  CHECK(moved.transfer.out_bytes > 0);
  CHECK(moved.transfer.in_bytes > 0);
}

// The events of one activation in the trace's only step, in time order: "save copy_out copy_in use".
std::string trip(const trace::Trace& trace, trace::ValueId value) {
  std::vector<const trace::TraceEvent*> events;
  for (const auto& event : trace.events)
    if (event.value == value) events.push_back(&event);
  std::stable_sort(events.begin(), events.end(), [](auto* a, auto* b) { return a->start_ns < b->start_ns; });
  std::vector<std::string> kinds;
  for (const auto* event : events) kinds.push_back(trace::to_string(event->kind));
  return join(kinds, " ");
}

trace::Trace traced(const std::string& strategy, int64_t host_budget_bytes = 0, int64_t* peak_bytes = nullptr,
                    int steps = 1) {
  Folder folder;
  auto asked = request(strategy);
  asked.envelope.trace = folder.path / "trace.mtt";
  asked.training.traced_steps = steps;
  asked.training.host_budget_bytes = host_budget_bytes;
  asked.training.scratch = folder.path;
  asked.training.scratch_in_memory = true;
  const result::TrialMeasurement measured = run(asked);
  CHECK(measured.outcome == TrialOutcome::ok);
  if (peak_bytes) *peak_bytes = measured.peak_bytes.allocated;
  return trace::read_trace(asked.envelope.trace).trace;
}

std::set<std::string> names_on(const trace::Trace& trace, trace::TrackRole role) {
  std::set<std::string> names;
  for (const auto& event : trace.events)
    if (trace.tracks[event.track].role == role) names.insert(trace.names[event.name]);
  return names;
}

TEST_CASE("a trace follows each activation from save through copies or recomputation to use") {
  const trace::Trace moved = traced("offload:sync");
  REQUIRE(moved.values.size() > 10);
  int trips = 0;
  for (size_t value = 0; value < moved.values.size(); ++value) {
    const std::string text = trip(moved, trace::ValueId(value));
    CHECK(text.starts_with("save"));
    CHECK(moved.values[value].bytes > 0);
    if (text.find("copy_out") == std::string::npos) continue;
    CAPTURE(text);
    CHECK(moved.values[value].placement == "host");
    const bool in_order = text.find("save") < text.find("use") && text.find("copy_out") < text.find("copy_in");
    CHECK(in_order);
    ++trips;
  }
  CHECK(trips > 10);
  CHECK(moved.values.front().region == "before the blocks");  // in program order
  CHECK(moved.values.back().region == "head");

  const trace::Trace again = traced("checkpoint:full");
  int reruns = 0;
  for (const auto& event : again.events) {
    if (event.kind != trace::EventKind::op || !event.value) continue;
    CHECK(again.value(event.value).placement == "recompute");
    ++reruns;
  }
  CHECK(reruns > 10);

  const trace::Trace spilled = traced("offload:sync,tier=disk", 256 << 10);
  for (const auto role : {trace::TrackRole::disk_write, trace::TrackRole::disk_read})
    CHECK(names_on(spilled, role).size() == 1);
}

TEST_CASE("a trace has the blocks of forward and backward and recompute and the owners of memory") {
  int64_t peak_bytes = 0;
  const trace::Trace trace = traced("checkpoint:full", 0, &peak_bytes);
  CHECK(names_on(trace, trace::TrackRole::phases) == std::set<std::string>{"forward", "backward", "optimizer"});
  const auto blocks = names_on(trace, trace::TrackRole::blocks);
  for (const char* name :
       {"model.layers.0", "model.layers.0 backward", "model.layers.0 recompute", "head", "head backward", "optimizer"})
    CHECK_MESSAGE(blocks.count(name) == 1, std::string(name));
  std::vector<int64_t> held(trace.owners.size(), 0), most = held;
  size_t next = 0;
  int64_t time = 0, highest = 0;
  for (const auto& sample : trace.memory) {
    CHECK(sample.time_ns >= time);
    time = sample.time_ns;
    highest = std::max(highest, sample.allocated_bytes);
    for (; next < trace.owned.size() && trace.owned[next].time_ns <= sample.time_ns; ++next) {
      held[trace.owned[next].owner] = trace.owned[next].bytes;
      most[trace.owned[next].owner] = std::max(most[trace.owned[next].owner], trace.owned[next].bytes);
    }
  }
  for (size_t owner = 0; owner < most.size(); ++owner)
    if (trace.owners[owner].kind != trace::MemoryOwnerKind::prefetched)
      CHECK_MESSAGE(most[owner] > 0, trace.owners[owner].name);
  CHECK(trace.owners[0].kind == trace::MemoryOwnerKind::parameters);
  CHECK(highest == peak_bytes);  // includes work space of ops
}

TEST_CASE("each traced step has the same memory curve as the first") {
  constexpr size_t kSteps = 3;
  const trace::Trace trace = traced("checkpoint:full", 0, nullptr, kSteps);
  REQUIRE(trace.memory.size() % kSteps == 0);
  const size_t samples = trace.memory.size() / kSteps;
  CHECK(samples > 20);
  for (size_t i = samples; i < trace.memory.size(); ++i) {
    CHECK(trace.memory[i].allocated_bytes == trace.memory[i - samples].allocated_bytes);
    CHECK(trace.memory[i].time_ns >= trace.memory[i - 1].time_ns);
  }
  CHECK(trace.memory[samples].time_ns > trace.memory[0].time_ns);
}

TEST_CASE("a step with gradient accumulation has several passes and their mean gradients and a higher peak") {
  Folder folder;
  auto once = request(), thrice = request();
  once.envelope.reference = folder.path / "once.bin";
  thrice.envelope.reference = folder.path / "thrice.bin";
  thrice.training.accumulate = 3;
  thrice.envelope.trace = folder.path / "trace.mtt";
  const auto alone = run(once), several = run(thrice);
  CHECK(several.outcome == TrialOutcome::ok);
  CHECK(several.loss[0] == doctest::Approx(alone.loss[0]));
  CHECK(several.loss[1] == doctest::Approx(alone.loss[1]).epsilon(1e-5));  // the mean over micro-batches of one batch
  CHECK(several.tokens_per_s * several.step_ms.median ==
        doctest::Approx(3 * alone.tokens_per_s * alone.step_ms.median));
  CHECK(several.peak_bytes.allocated > alone.peak_bytes.allocated);  // by the accumulated gradients
  const auto of_one = plan::read_reference(once.envelope.reference),
             of_three = plan::read_reference(thrice.envelope.reference);
  CHECK(of_one.gradients[0].hash != of_three.gradients[0].hash);  // (g / 3) + (g / 3) + (g / 3) is not exactly g
  const trace::Trace trace = trace::read_trace(thrice.envelope.trace).trace;
  std::map<std::string, int> phases;
  for (const auto& event : trace.events)
    if (trace.tracks[event.track].role == trace::TrackRole::phases) ++phases[trace.names[event.name]];
  CHECK(phases == std::map<std::string, int>{{"forward", 3}, {"backward", 3}, {"optimizer", 1}});
  int64_t highest = 0;
  for (const auto& sample : trace.memory) highest = std::max(highest, sample.allocated_bytes);
  CHECK(highest == several.peak_bytes.allocated);
}

TEST_CASE("gradient accumulation keeps gradients and losses and offloaded bytes per pass under each strategy") {
  Folder folder;
  auto none = request();
  none.envelope.reference = folder.path / "reference.bin";
  none.training.accumulate = 2;
  none.training.warmup = 3;  // offloading needs them
  const auto baseline = run(none);
  for (const char* strategy : {"offload:stream", "checkpoint:full", "checkpoint:full,inputs=host", "offload:sync"}) {
    CAPTURE(strategy);
    auto asked = request(strategy);
    const int64_t of_one_pass = run(asked).transfer.out_bytes;
    asked.envelope.reference = none.envelope.reference;
    asked.training.accumulate = 2;
    asked.training.warmup = 3;
    const auto found = run(asked);
    CHECK(found.outcome == TrialOutcome::ok);
    CHECK(found.gradients.equal);
    CHECK(found.loss == baseline.loss);
    CHECK(found.transfer.out_bytes == 2 * of_one_pass);
  }
}

TEST_CASE("losses without whole logits and every optimizer work under plans") {
  for (const char* how : {"chunked=3", "fused"}) {
    CAPTURE(how);
    Folder folder;
    auto none = request();
    none.training.loss_impl = how;
    none.envelope.reference = folder.path / "reference.bin";
    const auto baseline = run(none), plain = run(request());
    CHECK(baseline.loss[0] == doctest::Approx(plain.loss[0]).epsilon(std::sqrt(unit_roundoff(at::kFloat))));
    for (const char* strategy : {"offload:stream", "checkpoint:full", "checkpoint:op", "checkpoint:full,inputs=host"}) {
      CAPTURE(strategy);
      auto asked = request(strategy);
      asked.training.loss_impl = how;
      asked.envelope.reference = none.envelope.reference;
      const auto found = run(asked);
      CHECK(found.outcome == TrialOutcome::ok);
      CHECK(found.gradients.equal);
    }
  }
  for (const char* optimizer :
       {"adamw", "adamw_8bit", "adamw_32bit", "paged_adamw_32bit", "paged_adamw_8bit", "adafactor", "sgd"}) {
    CAPTURE(optimizer);
    auto asked = request("offload:stream");
    asked.training.optimizer = optimizer;
    asked.training.max_grad_norm = 1;
    asked.training.learning_rate = 1e-3;
    asked.training.steps = 6;
    const auto found = run(asked);
    CHECK(found.outcome == TrialOutcome::ok);
    CHECK(found.loss.back() < found.loss.front());
  }
}

TEST_CASE("an optimizer in backward lowers the peak and does not change the losses") {
  auto asked = request("checkpoint:full");
  asked.training.steps = 4;
  const auto after = run(asked);
  asked.training.optimizer_in_backward = true;
  const auto within = run(asked);
  CHECK(within.outcome == TrialOutcome::ok);
  CHECK(within.loss == after.loss);
  CHECK(within.peak_bytes.allocated < after.peak_bytes.allocated);
}

void write_gradients(plan::TrialRequest baseline) {
  baseline.envelope.only_gradients = true;
  const result::TrialMeasurement measured = run(baseline);
  CHECK(measured.outcome == TrialOutcome::ok);
  CHECK(measured.step_ms.samples.empty());
  CHECK(plan::read_reference(baseline.envelope.reference).has_gradients);
}

TEST_CASE("a reproducible baseline writes hashes of its gradients alone") {
  Folder folder;
  auto none = request();
  none.envelope.reference = folder.path / "reference.bin";
  run(none);
  const plan::ReferenceGradientFileIndex reference = plan::read_reference(none.envelope.reference);
  CHECK_FALSE(reference.has_gradients);
  for (const plan::ReferenceGradientFileEntry& gradient : reference.gradients) {
    CHECK(gradient.bytes == 0);
    CHECK((gradient.hash + gradient.device_hash).empty() == !gradient.defined);
  }
  auto other = request("checkpoint:full");
  other.envelope.reference = none.envelope.reference;
  CHECK(run(other).gradients.equal);
}

TEST_CASE("gradients that differ from the baseline are a mismatch with the parameter's name") {
  Folder folder;
  auto none = request();
  none.envelope.reference = folder.path / "reference.bin";
  run(none);
  auto other = request("checkpoint:full");
  other.envelope.reference = none.envelope.reference;
  other.training.seed = 1;  // other weights act as a wrong engine
  const auto undecided = run(other);
  CHECK(undecided.gradients.undecided);
  CHECK_FALSE(undecided.gradients.equal);
  CHECK(undecided.outcome == TrialOutcome::error);
  CHECK(undecided.step_ms.samples.empty());
  write_gradients(none);
  auto result = run(other);
  CHECK_FALSE(result.gradients.undecided);
  CHECK(result.outcome == TrialOutcome::mismatch);
  CHECK_FALSE(result.gradients.equal);
  CHECK(result.gradients.max_abs_difference > 0);
  CHECK(result.reason.find("gradients differ from none's, most in ") == 0);
}

// Changes the first element of the reference's first gradient and sets that gradient's noise.
void move_reference(const std::filesystem::path& path, float by, double noise) {
  plan::ReferenceGradientFileIndex reference = plan::read_reference(path);
  plan::ReferenceGradientFileEntry& first = reference.gradients[0];
  uint64_t end = plan::kFirstGradient;
  for (const plan::ReferenceGradientFileEntry& gradient : reference.gradients) end += gradient.bytes;
  std::filesystem::resize_file(path, end);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::vector<float> elements(first.bytes / sizeof(float));
  const auto begin = static_cast<std::streamoff>(plan::kFirstGradient + first.offset);
  file.seekg(begin);
  file.read(reinterpret_cast<char*>(elements.data()), static_cast<std::streamsize>(first.bytes));
  elements[0] += by;
  file.seekp(begin);
  file.write(reinterpret_cast<const char*>(elements.data()), static_cast<std::streamsize>(first.bytes));
  first.hash = hash_hex(elements.data(), first.bytes);
  first.noise = noise;
  plan::finish_reference(file, reference);
}

TEST_CASE("gradients may differ from a nondeterministic baseline by its noise and no more") {
  Folder folder;
  auto none = request();
  none.envelope.reference = folder.path / "reference.bin";
  write_gradients(none);
  auto other = request("checkpoint:full");
  other.envelope.reference = none.envelope.reference;
  move_reference(none.envelope.reference, 0.125F, 0.125);
  auto near = run(other);
  CHECK(near.outcome == TrialOutcome::ok);
  CHECK_FALSE(near.gradients.equal);
  CHECK(near.reason == "gradients differ by no more than the baseline's own runs");
  move_reference(none.envelope.reference, 0.25F, 0.125);
  auto far = run(other);
  CHECK(far.outcome == TrialOutcome::mismatch);
  CHECK(far.reason.find("gradients differ from none's, most in ") == 0);
  CHECK(far.reason.find(", and its own runs allow 0.25") != std::string::npos);
}

// `source` is forward(self, x) of one block; it returns the loss. sgd trains it under each kind of plan.
struct Script {
  explicit Script(const std::string& source, const std::function<void(torch::jit::Module&)>& add = {}) {
    test_device();
    at::manual_seed(3);
    torch::jit::Module module("Net");
    module.register_parameter("a", at::randn({8, 8}).requires_grad_(), false);
    module.register_parameter("count", at::zeros({1}), true);
    if (add) add(module);
    module.define(source);
    module.save((folder.path / "model.pt").string());
  }

  result::TrialMeasurement run(const std::string& strategy, const std::string& optimizer = "sgd") const {
    plan::TrialRequest asked;
    asked.model.path = (folder.path / "model.pt").string();
    asked.model.inputs = {plan::parse_input_spec("x:float32[4,8]")};
    asked.training.loss = "returned";
    asked.training.optimizer = optimizer;
    asked.training.steps = 1;
    asked.training.warmup = 0;
    asked.envelope.reference = folder.path / "reference.bin";
    trial::LoadedModelForwardBackwardSession session(asked);
    session.survey();
    asked.plan = plan_of(strategy, session.facts());
    return trial_test::run(asked);
  }

  // "again" recomputes and "host" offloads every output; other names keep all.
  static plan::Plan plan_of(const std::string& name, const plan::ProgramFacts& facts) {
    plan::Plan plan;
    plan.strategy = name;
    plan.saved_min_bytes = plan.transfer.min_bytes = 0;
    if (name == "none") return plan;
    const plan::TensorPlacement place = name == "host" ? plan::TensorPlacement::host : plan::TensorPlacement::recompute;
    for (size_t i = 0; i < facts.ops.size(); ++i) {
      const auto& op = facts.ops[i];
      plan.placements.push_back({static_cast<int>(i), (op.region.empty() ? "" : op.region + "/") + op.name, {}, place});
      plan.placements.back().outputs.assign(op.outputs.size(), place);
    }
    return plan;
  }

  void check_all() const {
    for (const char* strategy : {"none", "again", "host"}) {
      CAPTURE(strategy);
      const result::TrialMeasurement measured = run(strategy);
      CAPTURE(measured.reason);
      CHECK(measured.outcome == TrialOutcome::ok);
      CHECK(measured.gradients.compared);
      CHECK(measured.gradients.equal);
    }
  }

  Folder folder;
};

TEST_CASE("a model that counts its steps is compared at the same step each time") {
  const Script script(R"(
def forward(self, x):
    self.count.add_(1.0)
    return (torch.sin(torch.matmul(x, self.a)) * self.count).sum()
)");
  script.check_all();
  CHECK(script.run("none").loss[0] == script.run("none").loss[1]);  // the measured step is also the first
}

TEST_CASE("changes of the model's own buffers do not count as noise of the gradients") {
  const Script script(R"(
def forward(self, x):
    self.count.add_(1.0)
    return (torch.sin(torch.matmul(x, self.a)) * self.count).sum()
)");
  script.run("none");
  const plan::ReferenceGradientFileIndex reference = plan::read_reference(script.folder.path / "reference.bin");
  CHECK(reference.loss_noise == 0);
  CHECK(reference.gradients[0].noise == 0);
}

TEST_CASE("zero gradients without storage are trained with and compared") {
  Script("def forward(self, x):\n    return torch.sgn(torch.matmul(x, self.a)).sum()\n").check_all();
}

TEST_CASE("complex parameters are trained and compared even without real ones") {
  const auto add = [](torch::jit::Module& module) {
    module.register_parameter("z", at::randn({8, 8}, at::kComplexFloat).requires_grad_(), false);
    module.setattr("a", module.attr("a").toTensor().detach());
  };
  Script(R"(
def forward(self, x):
    y = torch.matmul(torch.complex(x, x * 0.5), self.z)
    return torch.view_as_real(y * torch.conj(y)).sum()
)",
         add)
      .check_all();
}

TEST_CASE("sgd trains with sparse embedding gradients and adamw rejects them with a message") {
  const Script script(R"(
def forward(self, x):
    rows = torch.embedding(self.a, torch.arange(4, device=x.device), -1, False, True)
    return torch.sin(rows * x).sum()
)");
  script.check_all();
  CHECK_THROWS_WITH_AS(script.run("none", "adamw"), doctest::Contains("is sparse, and adamw updates every element"),
                       UsageError);
}

TEST_CASE("a saved sparse CSR matrix is kept and traced") {
  Script(R"(
def forward(self, x):
    m = torch._to_sparse_csr(torch.relu(torch.matmul(x.t(), x)).detach())
    return torch.sin(torch.matmul(m, self.a)).sum()
)")
      .check_all();
}

TEST_CASE("out of memory is an outcome with the request and the phase and the largest owners") {
  auto capped = request();
  capped.training.memory_cap_bytes = test_device().memory().allocated + (3 << 20);
  auto result = run(capped);
  test_device().set_cap(0);
  CHECK(result.outcome == TrialOutcome::device_oom);
  CHECK(result.reason.find("tried to allocate") != std::string::npos);
  CHECK(result.reason.find("warmup") != std::string::npos);
  CHECK(result.reason.find("the step's largest: ") != std::string::npos);
  REQUIRE(result.oom.has_value());
  const result::OutOfMemoryBreakdown& oom = *result.oom;
  CHECK(oom.limit_bytes == capped.training.memory_cap_bytes);
  CHECK(oom.allocated_bytes <= oom.limit_bytes);
  CHECK(oom.allocated_bytes + oom.requested_bytes > oom.limit_bytes);
  CHECK(oom.parameters_bytes > 0);
  CHECK(oom.parameters_bytes + oom.gradients_bytes + oom.optimizer_bytes + oom.rest_bytes == oom.allocated_bytes);
  CHECK_FALSE(oom.lines.empty());
  CHECK_FALSE(oom.checkpointed);
  CHECK(test_device().memory().allocated < capped.training.memory_cap_bytes);  // nothing is left allocated
}

TEST_CASE("a loss that is not a number is an outcome") {
  auto wild = request();
  wild.training.learning_rate = 1e30;
  auto result = run(wild);
  CHECK(result.outcome == TrialOutcome::nan);
  CHECK(result.reason.find("the loss is") == 0);
}

TEST_CASE("inputs that the model rejects are a usage error") {
  auto wrong = request();
  wrong.model.inputs = {plan::parse_input_spec("input_ids:int64[2,64,3]<256")};
  trial::LoadedModelForwardBackwardSession session(wrong);
  CHECK_THROWS_WITH_AS(session.survey(), doctest::Contains("the model rejects input_ids:int64[2,64,3]<256"),
                       UsageError);
}

// A resource limit of this process, while the object lives.
class Limit {
 public:
  Limit(decltype(RLIMIT_DATA) what, rlim_t most) : what_(what) {
    ::getrlimit(what, &before_);
    const rlimit lower{most, before_.rlim_max};
    ::setrlimit(what, &lower);
  }
  ~Limit() { ::setrlimit(what_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  decltype(RLIMIT_DATA) what_;
  rlimit before_{};
};

// The bytes that count against RLIMIT_DATA.
rlim_t data_bytes() {
  std::ifstream file("/proc/self/status");
  rlim_t kib = 0;
  for (std::string word; file >> word;)
    if (word == "VmData:") file >> kib;
  return kib << 10;
}

TEST_CASE("a trial without enough host memory reports the limit and the size of the request") {
  auto big = request();
  big.model.inputs = {plan::parse_input_spec("input_ids:int64[2048,64]<256")};  // 128 MiB of logits
  const Limit limit(RLIMIT_DATA, data_bytes() + (rlim_t{64} << 20));
  const result::TrialMeasurement measured = run(big);
  CHECK(measured.outcome == TrialOutcome::host_oom);
  CHECK(measured.reason.find("out of host memory: tried to allocate ") != std::string::npos);
  CHECK(measured.reason.find("; this process may hold ") != std::string::npos);
}

TEST_CASE("a trial whose reference exceeds the file size limit reports the limit") {
  Folder folder;
  auto none = request();
  none.envelope.reference = folder.path / "reference.bin";
  none.envelope.only_gradients = true;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const Limit limit(RLIMIT_FSIZE, 4096);
  const result::TrialMeasurement measured = run(none);
  ::signal(SIGXFSZ, handler);
  CHECK(measured.outcome == TrialOutcome::disk_full);
  CHECK(measured.reason.find("a file that this process writes may have 4 KiB (ulimit -f)") != std::string::npos);
  CHECK(fs::is_empty(folder.path));
}

}  // namespace
}  // namespace memtune::tests::trial_test
