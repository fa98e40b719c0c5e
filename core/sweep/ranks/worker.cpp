#include "core/sweep/ranks/worker.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/temporary_folder.h"
#include "core/measure/process/interrupt.h"
#include "core/plan/request/reference_file.h"
#include "core/sweep/ranks/rank_trials.h"
#include "core/sweep/ranks/worker_coordinator.h"
#include "core/sweep/trials/local_rank_process.h"

namespace memtune::sweep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kWorkerTick{20};
constexpr int kInterruptedCode = 130;
constexpr int64_t kMaxLimitMs = int64_t{366} * 86'400'000;  // a year
constexpr size_t kLogBytes = size_t{1} << 20;               // most bytes that are sent to rank 0
constexpr size_t kCostsPart = size_t{1} << 20;

json frame_of(const TrialAnswer& answer) {
  if (const auto* measurement = std::get_if<result::TrialMeasurement>(&answer))
    return {{"frame", "result"}, {"measurement", *measurement}};
  if (const auto* usage = std::get_if<ReceivedUsageError>(&answer))
    return {{"frame", "usage"}, {"message", usage->message}};
  if (const auto* rank = std::get_if<FailedWaitForOtherRank>(&answer))
    return {{"frame", "rank"}, {"timed_out", rank->timed_out}, {"message", rank->message}};
  if (const auto* failure = std::get_if<ProcessFailure>(&answer))
    return {{"frame", "error"}, {"outcome", to_string(failure->outcome)}, {"message", failure->reason}};
  return {{"frame", "error"}, {"message", "memtune-trial gave an answer to no question"}};
}

json frame_of(const TrialPhaseProgress& phase) {
  return {{"frame", "phase"}, {"name", phase.name}, {"step", phase.step}, {"steps", phase.steps}, {"note", phase.note}};
}

std::string text_of(const fs::path& file) try { return read_file(file); } catch (const IoError&) {
  return "";
}

std::string end_of(const fs::path& log) {
  std::string text = text_of(log);
  return text.size() > kLogBytes ? text.substr(text.size() - kLogBytes) : text;
}

// "": none, or too large to send.
std::string read_costs(const std::string& file) {
  std::string text = file.empty() ? "" : text_of(file);
  return text.size() > kCostsBytes ? "" : text;
}

class WorkerSession {
 public:
  WorkerSession(const launch::LauncherRankEnvironment& launch, launch::JsonMessageConnection& coordinator,
                const plan::TrialRequest& own, milliseconds timeout)
      : launch_(launch), coordinator_(coordinator), own_(own), timeout_(timeout) {}

  int run() {
    while (!process::interrupted()) {
      json message;
      const bool heard = coordinator_.receive(message, heartbeat_interval(timeout_));
      note(heard);
      if (!heard) coordinator_.send({{"beat", true}});
      if (heard && message.contains("end")) return code_in(message);
      if (heard && message.contains("have")) coordinator_.send({{"have", has(message.at("have"))}});
      if (heard && message.contains("start")) run_trial(message);
      if (end_) return *end_;
    }
    return kInterruptedCode;
  }

 private:
  static int code_in(const json& message) { return whole_int_at(message, "end", 0, 255); }

  void note(bool heard) {
    if (heard) last_ = Clock::now();
    if (Clock::now() - last_ > timeout_) throw launch::PeerLostError("it no longer responds");
  }

  // Path of a file in this rank's own folder. Only the file name of `path` is used.
  fs::path of_own(const std::string& path) const { return folder_.path() / fs::path(path).filename(); }

  // A reference is read and checked only once.
  bool has(const std::string& reference) {
    const fs::path own = of_own(reference);
    if (whole_.contains(own)) return true;
    const bool whole = plan::is_whole_reference(own);
    if (whole) whole_.insert(own);
    return whole;
  }

  // The files of this rank, and the inputs of the coordinator.
  plan::ModelAndInputSource model_here(std::vector<plan::InputSpec> inputs) const {
    plan::ModelAndInputSource model = own_.model;
    model.inputs = std::move(inputs);
    return model;
  }

  plan::TrialRequest request_of(const json& message) {
    auto request = message.at("request").get<plan::TrialRequest>();
    if (request.training.ranks != launch_.size) throw launch::PeerLostError("it asks for another number of ranks");
    // A file only from a rank 0 of the same user on this machine.
    if (!launch_.on_one_machine() && !request.envelope.rendezvous.starts_with("tcp://"))
      throw launch::PeerLostError("it sent no rendezvous address");
    request.model = model_here(std::move(request.model.inputs));
    request.training.scratch = own_.training.scratch;
    request.envelope.rank = launch_.rank;
    request.training.device = device_of_rank(request.training.device, std::max(0, launch_.local_rank));
    request.envelope.trace = "";
    if (!request.envelope.costs.empty()) request.envelope.costs = of_own(request.envelope.costs).string();
    if (!request.envelope.reference.empty()) request.envelope.reference = of_own(request.envelope.reference).string();
    if (message.value("fresh", false) && !request.envelope.reference.empty()) {
      whole_.erase(request.envelope.reference);
      remove_file(request.envelope.reference);
    }
    return request;
  }

  TrialProcessSettings command_of(const json& message) const {
    if (message.at("kind") != "run") throw launch::PeerLostError("it sent an unknown request");
    TrialProcessSettings command{{"run", (folder_.path() / "request.json").string()},
                                 folder_.path() / "log.txt",
                                 milliseconds(whole_at(message, "limit_ms", 0, kMaxLimitMs)),
                                 {}};
    command.grace = milliseconds(whole_at(message, "grace_ms", 0, kMaxLimitMs));
    const int here = launch_.local_size > 0 ? launch_.local_size : 1;
    command.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / here);
    return command;
  }

  void run_trial(const json& message) {
    const TrialProcessSettings command = command_of(message);
    const plan::TrialRequest request = request_of(message);
    write_file(command.arguments.back(), json(request).dump(1, '\t') + "\n");
    if (!request.envelope.costs.empty()) remove_file(request.envelope.costs);  // of an earlier trial
    LocalRankProcess trial(command);
    Clock::time_point heartbeat = Clock::now();
    while (trial.poll_output(kWorkerTick)) {
      json order;
      const bool heard = coordinator_.receive(order);
      note(heard);
      if (heard && order.contains("end")) end_ = code_in(order);
      if (end_ || (heard && order.contains("stop"))) trial.end();
      if (Clock::now() < heartbeat) continue;
      coordinator_.send({{"beat", true}, {"of", message.at("start")}, {"phase", frame_of(trial.phase())}});
      heartbeat = Clock::now() + heartbeat_interval(timeout_);
    }
    const std::string costs = read_costs(request.envelope.costs);
    for (size_t begin = 0; begin < costs.size(); begin += kCostsPart)
      coordinator_.send({{"costs", costs.substr(begin, kCostsPart)}, {"of", message.at("start")}});
    coordinator_.send({{"done", true},
                       {"of", message.at("start")},
                       {"answer", frame_of(trial.answer())},
                       {"others", trial.stopped_by_other_rank()},
                       {"phase", frame_of(trial.phase())},
                       {"log", end_of(command.log)}});
  }

  const launch::LauncherRankEnvironment& launch_;
  launch::JsonMessageConnection& coordinator_;
  const plan::TrialRequest& own_;
  const milliseconds timeout_;
  const TemporaryFolder folder_{"rank"};
  std::set<fs::path> whole_;  // complete references
  Clock::time_point last_ = Clock::now();
  std::optional<int> end_;  // rank 0 ended the sweep during a trial
};

}  // namespace

int run_worker(const launch::LauncherRankEnvironment& launch, launch::JsonMessageConnection& coordinator,
               const plan::TrialRequest& own, milliseconds timeout) try {
  const process::InterruptScope interrupts;
  return WorkerSession(launch, coordinator, own, timeout).run();
} catch (const launch::PeerLostError& error) {
  throw Error("rank 0 is lost: " + std::string(error.what()));
} catch (const nlohmann::json::exception&) {
  throw Error("rank 0 is lost: it sent an invalid request");
}

}  // namespace memtune::sweep
