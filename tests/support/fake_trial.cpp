// Stands in for memtune-trial: plays its side of the protocol, correctly or not, to test the sweep without LibTorch.
//
//   FAKE_TRIAL="checkpoint:full=crash;inspect=usage"   the outcome of a strategy (or of inspect, doctor, probe;
//                                                      inspect-b2: with that batch; "save async": measuring it;
//                                                      "none again": in later rounds; "none rank 1": on that rank;
//                                                      later: crash, or logged: "waited" in the log before its trial);
//                                                      default: ok
//   FAKE_TRIAL_GIB=64                                  device memory; a strategy's memory is proportional to the batch
//   FAKE_TRIAL_LOG=FILE                                one line per start: the strategy, " again" in later rounds,
//                                                      " gradients" if it is to write them, "save async", or inspect
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/request/reference_file.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/plan/request/trial_protocol.h"
#include "core/plan/request/trial_request.h"
#include "core/record/measurement/state_save_mode_measurement.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/trace/file.h"
#include "core/record/trace/trace_event.h"

namespace {

using namespace memtune;
using nlohmann::json;

constexpr int64_t kGiB = int64_t{1} << 30;

void send_text(const std::string& text) {
  if (write(plan::kFrameDescriptor, text.data(), text.size()) < 0) std::_Exit(1);
}
void send(const json& frame) { send_text(frame.dump() + "\n"); }

void send_phase(const std::string& name, int step = 0, int steps = 0) {
  send({{"frame", "phase"}, {"name", name}, {"step", step}, {"steps", steps}});
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::string behaviour_of(const std::string& name) {
  const char* rules = std::getenv("FAKE_TRIAL");
  for (const std::string& rule : split(rules ? rules : "", ';')) {
    const size_t equals = rule.rfind('=');
    if (equals != std::string::npos && rule.substr(0, equals) == name) return rule.substr(equals + 1);
  }
  return "ok";
}

void log_start(const std::string& name) {
  if (const char* path = std::getenv("FAKE_TRIAL_LOG")) std::ofstream(path, std::ios::app) << name << "\n";
}

// A chain like a decoder: two matmuls and an attention per block, then a head and a loss. `output_bytes` of each op, as
// if measured; 0: not measured.
plan::ProgramFacts facts(int blocks, int64_t output_bytes) {
  plan::ProgramFacts facts;
  facts.kind = "scripted";
  facts.owner = {-1};
  const auto add = [&](const std::string& name, const std::string& region, int block) {
    plan::ProgramOpFacts op;
    op.name = name;
    op.region = region;
    op.block = block;
    op.after_blocks = block < 0;
    op.op_class = plan::traits_of(name).op_class;
    op.inputs = {static_cast<int>(facts.owner.size()) - 1};
    op.outputs = {static_cast<int>(facts.owner.size())};
    if (output_bytes > 0) op.output_bytes = {output_bytes}, op.output_saved = {true};
    facts.owner.push_back(static_cast<int>(facts.ops.size()));
    facts.ops.push_back(op);
  };
  for (int block = 0; block < blocks; ++block) {
    const std::string region = "layers." + std::to_string(block);
    facts.blocks.push_back({region});
    for (const char* op : {"aten::linear", "aten::scaled_dot_product_attention", "aten::linear", "aten::silu"}) {
      add(op, region, block);
    }
  }
  add("aten::linear", "head", -1);
  add("aten::cross_entropy_loss", "loss", -1);
  facts.parameters = 1000;
  facts.parameter_bytes = facts.trained_bytes = 4000;
  return facts;
}

result::TrialMeasurement measure(const plan::TrialRequest& request) {
  struct Figures {
    const char* strategy;
    double ms;
    int64_t gib;
  };
  constexpr Figures kFigures[] = {
      {"none", 100, 32}, {"checkpoint:full", 125, 8}, {"checkpoint:every=2", 112, 20}, {"offload:stream", 110, 12}};
  result::TrialMeasurement measurement;
  measurement.strategy = request.plan.strategy;
  double ms = 200;
  measurement.peak_bytes.allocated = 6 * kGiB;
  for (const Figures& figures : kFigures) {
    if (request.plan.strategy != figures.strategy) continue;
    ms = figures.ms;
    measurement.peak_bytes.allocated = figures.gib * kGiB;
  }
  const int64_t batch = std::max<int64_t>(1, request.training.batch);
  if (const char* gib = std::getenv("FAKE_TRIAL_GIB")) {
    measurement.peak_bytes.allocated *= batch;
    if (measurement.peak_bytes.allocated > std::atoll(gib) * kGiB)
      measurement.outcome = result::TrialOutcome::device_oom;
  }
  ms *= static_cast<double>(batch) * request.training.accumulate;
  measurement.step_ms = result::summarize(std::vector<double>(static_cast<size_t>(request.training.steps), ms));
  measurement.samples_per_s = 1000 * static_cast<double>(batch) * request.training.accumulate / ms;
  measurement.peak_bytes.reserved = measurement.peak_bytes.allocated;
  measurement.loss = {2.5, 2.25};
  measurement.emulated = true;
  measurement.device = "fake device";
  return measurement;
}

void compare(const plan::TrialRequest& request, bool differs, result::TrialMeasurement& measurement) {
  const bool only_gradients = request.envelope.only_gradients;
  if (only_gradients || !std::filesystem::exists(request.envelope.reference)) {
    std::fstream file(request.envelope.reference, std::ios::binary | std::ios::in | std::ios::out | std::ios::trunc);
    plan::begin_reference(file);
    plan::ReferenceGradientFileIndex reference;
    reference.strategy = request.plan.strategy;
    const std::string bytes = "grad";
    if (only_gradients) file << bytes;
    reference.has_gradients = only_gradients;
    reference.gradients = {{"w", "Float", {1}, true, 0, only_gradients ? bytes.size() : 0, hash_hex(bytes), 0}};
    plan::finish_reference(file, reference);
    return;
  }
  const plan::ReferenceGradientFileIndex reference = plan::read_reference(request.envelope.reference);
  measurement.gradients.compared = measurement.gradients.equal = true;
  measurement.gradients.against = reference.strategy;
  if (!differs) return;
  measurement.gradients.equal = false;
  measurement.gradients.undecided = !reference.has_gradients;
  measurement.outcome = reference.has_gradients ? result::TrialOutcome::mismatch : result::TrialOutcome::error;
  measurement.reason = "gradients differ from none's";
}

void write_trace(const plan::TrialRequest& request) {
  trace::Trace trace;
  trace.strategy = request.plan.strategy;
  trace.device = "fake device";
  trace.events.push_back(
      {trace::EventKind::kernel, trace.track({trace::TrackRole::compute}), trace.name("matmul"), 0, 1000});
  trace::write_trace(request.envelope.trace, trace);
}

[[noreturn]] void hang() {
  std::signal(SIGTERM, SIG_IGN);
  while (true) sleep_ms(1000);
}

// Leaves a process that outlives its parent and keeps the pipe open.
void leave_child() {
  if (fork() == 0) hang();
}

[[noreturn]] void die_of(int signal) {
  std::signal(signal, SIG_DFL);  // sanitizers catch some signals
  std::raise(signal);
  std::abort();
}

// Reads a mapped file that was truncated.
[[noreturn]] void read_cut_map() {
  std::signal(SIGBUS, SIG_DFL);
  const int file = memfd_create("model", 0);
  if (ftruncate(file, 4096) != 0) std::abort();
  const auto* bytes = static_cast<const volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
  if (ftruncate(file, 0) != 0) std::abort();
  std::exit(bytes[0]);
}

// Fails in the given way before there is a result; returns for any other behaviour.
void misbehave(const std::string& behaviour) {
  if (behaviour == "crash") std::cerr << "loading\nsomething is rotten\n" << std::flush, die_of(SIGSEGV);
  if (behaviour == "file-limit") die_of(SIGXFSZ);
  if (behaviour == "cut-map") read_cut_map();
  if (behaviour == "killed") die_of(SIGKILL);
  if (behaviour == "hang") hang();
  if (behaviour == "sleep") sleep_ms(60'000);
  if (behaviour == "environment") {
    const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG");
    const char* daemon = std::getenv("KINETO_USE_DAEMON");
    const std::string words = std::string(workspace ? workspace : "unset") + " " + (daemon ? daemon : "unset");
    send({{"frame", "error"}, {"message", words}}), std::exit(1);
  }
  if (behaviour == "limits") {
    rlimit core{};
    getrlimit(RLIMIT_CORE, &core);
    const std::string words = "no_new_privs " + std::to_string(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)) + ", core " +
                              std::to_string(core.rlim_max);
    send({{"frame", "error"}, {"message", words}}), std::exit(1);
  }
  if (behaviour == "flood") {
    const std::string line(65536, 'x');
    for (int i = 0; i < 1000; ++i) std::cout << line << "\n";
  }
  if (behaviour == "garbage") send_text("no { json\n"), std::exit(0);
  if (behaviour == "silent") std::cerr << "gave up\n", std::exit(3);
  if (behaviour == "slow") sleep_ms(400);
  if (behaviour == "leaves-child") leave_child();
  if (behaviour == "waits" || behaviour == "loses") {
    if (behaviour == "waits") sleep_ms(300);
    const std::string words =
        behaviour == "waits" ? "somebody waited in the all-gather of h.0" : "somebody lost another";
    send({{"frame", "rank"}, {"timed_out", behaviour == "waits"}, {"message", words}}), std::exit(1);
  }
  if (behaviour == "usage") send({{"frame", "usage"}, {"message", "the model rejects the input"}}), std::exit(2);
  if (behaviour == "error") send({{"frame", "error"}, {"message", "an unplanned error"}}), std::exit(1);
}

void run(const plan::TrialRequest& request, const std::string& behaviour) {
  if (behaviour == "no-symbols")  // as the loader ends a program
    std::cerr << "memtune-trial: symbol lookup error: undefined symbol: name\n", std::exit(127);
  send_phase("load");
  send_phase("measure", 1, request.training.steps);
  misbehave(behaviour);
  result::TrialMeasurement measurement = measure(request);
  if (behaviour == "idle") measurement.recomputed_bytes = 0;
  if (behaviour == "recomputes") measurement.recomputed_bytes = measurement.recomputed_ops = 1;
  if (behaviour == "nan") {
    measurement.outcome = result::TrialOutcome::nan;
    measurement.loss = {2.5, std::nan("")};
  }
  if (behaviour == "disk_full") measurement.outcome = result::TrialOutcome::disk_full;
  measurement.cap_bytes = request.training.memory_cap_bytes;
  measurement.allocator = request.envelope.allocator;
  measurement.fragmented = behaviour == "in-pieces" && measurement.allocator.empty();
  if (measurement.fragmented) measurement.outcome = result::TrialOutcome::device_oom;
  if (behaviour == "device_oom") {
    measurement = {};
    measurement.outcome = result::TrialOutcome::device_oom;
    measurement.reason = "asked for 2 GiB, 1 GiB free";
  } else if (request.envelope.round == 0) {
    compare(request, behaviour == "differs", measurement);
    if (!request.envelope.trace.empty()) write_trace(request);
  }
  send({{"frame", "result"}, {"measurement", measurement}});
  if (behaviour == "lingers") hang();
}

void inspect(const plan::TrialRequest& request) {
  const char* const torch = std::getenv("FAKE_TORCH");
  send_phase("load");
  std::vector<std::string> inputs;
  for (const plan::InputSpec& input : request.model.inputs) inputs.push_back(to_string(input));
  send({{"frame", "facts"},
        {"facts", facts(4, request.training.batch << 19)},
        {"inputs", inputs},
        {"loss", "next_token"},
        {"origin",
         trace::RunProvenance{"", "", "", "0.1.0", torch && *torch ? torch : "2.11.0", "", "a made-up machine"}}});
}

// Each mode blocks less than the one before. All of them write a state to the requested folder.
void save(const plan::ResumableTrainingRequest& request, const std::string& behaviour) {
  const auto place = std::ranges::find(kSaveModes, request.save) - kSaveModes.begin();
  const std::filesystem::path state = std::filesystem::path(request.folder) / "states/step-00000002";
  std::filesystem::create_directories(state);
  for (const std::filesystem::path& file : {state / "shard-00001-model-00001-of-00001.safetensors",
                                            state / "manifest.json", state.parent_path() / "latest"})
    std::ofstream(file) << "a state";
  send_phase("saving", 1, static_cast<int>(request.saves));
  misbehave(behaviour);
  result::StateSaveModeMeasurement measurement;
  measurement.mode = request.save;
  result::summarize(std::vector<result::StateSaveWithConcurrentStepTimes>(
                        static_cast<size_t>(request.saves),
                        {1000.0 / static_cast<double>(1 + 9 * place), 1000, 1010, kGiB, {110, 110, 110}}),
                    {100, 100, 100}, measurement);
  if (place == 0) measurement.slowdown.reset(), measurement.no_slowdown = "a save ended before a step did";
  measurement.load_ms = 500;
  measurement.host_bytes = kGiB * place;
  if (behaviour == "disk_full") {
    measurement.outcome = result::TrialOutcome::disk_full;
    measurement.reason = "cannot write: No space left on device";
  }
  send({{"frame", "saves"}, {"saves", measurement}});
}

void doctor() {
  send({{"frame", "doctor"},
        {"checks",
         {{{"name", "LibTorch"}, {"status", "ok"}, {"detail", "2.11.0"}, {"fix", ""}},
          {{"name", "CUPTI"}, {"status", "warn"}, {"detail", "not found"}, {"fix", "install it"}}}}});
}

void probe() {
  send({{"frame", "phase"}, {"name", "probe"}, {"note", "measuring a synthetic machine"}});
  send({{"frame", "machine"},
        {"machine",
         {{"version", 1},
          {"name", "fake device"},
          {"devices", {"fake device"}},
          {"basis", "measured"},
          {"memory_bytes", 64 * kGiB},
          {"tflops", {{"float32", 10}, {"bfloat16", 100}}},
          {"memory_gb_per_s", 1000},
          {"sources", {{"tflops", "synthetic"}}}}}});
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "later") {
    if (behaviour_of("later") == "crash") die_of(SIGSEGV);
    std::string line;
    if (!std::getline(std::cin, line)) return 0;
    words = json::parse(line).get<std::vector<std::string>>();
    if (behaviour_of("later") == "logged") log_start("waited");
  }
  const std::string command = words.empty() ? "" : words[0];
  if (command == "doctor" || command == "probe") {
    misbehave(behaviour_of(command));
    command == "doctor" ? doctor() : probe();
    return 0;
  }
  if (command == "save") {
    const auto request = json::parse(read_file(words.at(1))).get<plan::ResumableTrainingRequest>();
    log_start("save " + request.save + " under " + request.trial.plan.strategy);
    save(request, behaviour_of("save " + request.save));
    return 0;
  }
  const auto request = json::parse(read_file(words.at(1))).get<plan::TrialRequest>();
  std::string name = command == "inspect" ? command : request.plan.strategy;
  if (request.envelope.rank > 0) name += " rank " + std::to_string(request.envelope.rank);
  const std::string kind = request.envelope.only_gradients ? " gradients" : request.envelope.round > 0 ? " again" : "";
  log_start(name + kind);
  if (command == "inspect") {
    misbehave(behaviour_of(name));
    misbehave(behaviour_of(name + "-b" + std::to_string(request.training.batch)));
    inspect(request);
  } else {
    const std::string behaviour = behaviour_of(name + kind);
    run(request, kind == " again" && behaviour == "ok" ? behaviour_of(name) : behaviour);
  }
}
