#include "core/sweep/ranks/worker_coordinator.h"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/launch/socket.h"
#include "core/sweep/trials/trial_output_frame_parser.h"

namespace memtune::sweep {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr milliseconds kWorkersTick{50}, kEndTimeout{500};
constexpr int kFailedCode = 1;
constexpr int kMessagesPerTick = 256;
constexpr size_t kQueuedMessages = 1024, kQueuedBytes = size_t{1} << 20;

}  // namespace

struct WorkerCoordinator::State {
  std::mutex sending;                            // held while a message is sent to this worker
  std::deque<std::pair<json, size_t>> messages;  // with their bytes
  size_t bytes = 0;                              // of all messages
  std::string lost;                              // the reason; "" while it is connected
  Clock::time_point heard = Clock::now();
};

// A rank's trial that runs in another memtune process.
class RemoteRankProcess final : public LocalOrRemoteRankTrialProcess {
 public:
  RemoteRankProcess(WorkerCoordinator& workers, int rank, int id, LocalPathsForRemoteRankLogAndCosts to,
                    FileSystem& files)
      : workers_(workers), rank_(rank), id_(id), to_(std::move(to)), files_(files), reader_({}) {}
  ~RemoteRankProcess() override {
    if (!ended_) end();
  }

  bool poll_output(milliseconds timeout) override {
    json message;
    const auto index = static_cast<size_t>(rank_ - 1);
    if (!ended_ && workers_.receive(index, message, timeout)) take(message);
    if (!ended_) lost_ = workers_.why_lost(index);
    // The workers end with this process, so that their answers need not be waited for.
    others_ |= !ended_ && process::interrupted();
    ended_ |= !lost_.empty() || others_;
    return !ended_;
  }

  void end() override {
    if (ended_ || std::exchange(told_, true)) return;
    workers_.send(static_cast<size_t>(rank_ - 1), {{"stop", id_}});
  }

  bool stopped_by_other_rank() const override { return others_; }
  const TrialPhaseProgress& phase() const override { return reader_.phase(); }

  TrialAnswer answer() const override {
    if (reader_.answer()) return *reader_.answer();
    return ProcessFailure{result::TrialOutcome::error, lost_.empty() ? "its answer is invalid" : lost_};
  }

 private:
  void take(const json& message) try {
    if (!message.contains("of") || message.at("of") != id_) return;  // of an earlier trial
    if (message.contains("phase")) reader_.add(print_json(message.at("phase")) + "\n");
    if (message.contains("costs")) add_costs(message.at("costs").get<std::string>());
    if (!message.contains("done")) return;
    ended_ = true;
    reader_.add(print_json(message.at("answer")) + "\n");
    others_ = message.at("others");
    write_file(to_.log, message.at("log").get<std::string>(), files_);
    if (!to_.costs.empty() && !costs_.empty()) write_file(to_.costs, costs_, files_);
  } catch (const std::exception&) {  // an invalid answer counts as none; a file that cannot be written is missing
  }

  void add_costs(const std::string& part) {
    if (costs_.size() + part.size() <= kCostsBytes) costs_ += part;
  }

  WorkerCoordinator& workers_;
  const int rank_, id_;
  const LocalPathsForRemoteRankLogAndCosts to_;
  FileSystem& files_;
  TrialOutputFrameParser reader_;
  bool ended_ = false, told_ = false, others_ = false;
  std::string lost_, costs_;
};

WorkerCoordinator::WorkerCoordinator(std::vector<WorkerConnectionAndAddress> workers, std::string address,
                                     milliseconds timeout, bool shares_files)
    : workers_(std::move(workers)),
      states_(workers_.size()),
      address_(std::move(address)),
      timeout_(timeout),
      shares_files_(shares_files) {
  for (const WorkerConnectionAndAddress& worker : workers_) worker.connection->set_longest(kAnswerBytes);
  listening_ = std::thread([this] { listen(); });
}

WorkerCoordinator::~WorkerCoordinator() {
  end(kFailedCode);
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  listening_.join();
}

// Ranks on the machine of rank 0 connect over loopback, which other machines cannot reach. Their address is that of
// rank 0.
std::string WorkerCoordinator::address(int rank) const {
  const std::string& own = rank == 0 ? address_ : workers_.at(static_cast<size_t>(rank - 1)).address;
  return launch::is_loopback(own) ? address_ : own;
}

int WorkerCoordinator::on_this_machine() const {
  int ranks = 0;
  for (int rank = 0; rank < size(); ++rank) ranks += address(rank) == address_ ? 1 : 0;
  return ranks;
}

void WorkerCoordinator::send(size_t index, const json& message) {
  State& state = states_[index];
  const std::scoped_lock sending(state.sending);
  {
    const std::scoped_lock lock(mutex_);
    if (!state.lost.empty()) return;
  }
  try {  // may wait for this worker; the others still get heartbeats
    workers_[index].connection->send(message);
  } catch (const launch::PeerLostError& error) {
    const std::scoped_lock lock(mutex_);
    state.lost = error.what();
  }
}

bool WorkerCoordinator::receive(size_t index, json& message, milliseconds timeout) {
  std::unique_lock lock(mutex_);
  State& state = states_[index];
  message_received_.wait_for(lock, timeout, [&] { return !state.messages.empty() || !state.lost.empty(); });
  if (state.messages.empty()) return false;
  message = std::move(state.messages.front().first);
  state.bytes -= state.messages.front().second;
  state.messages.pop_front();
  return true;
}

std::string WorkerCoordinator::why_lost(size_t index) const {
  const std::scoped_lock lock(mutex_);
  const State& state = states_[index];
  if (state.lost.empty() || !state.messages.empty()) return "";
  return "its memtune on " + workers_[index].host + " is lost: " + state.lost;
}

void WorkerCoordinator::check() const {
  for (size_t i = 0; i < workers_.size(); ++i)
    if (const std::string why = why_lost(i); !why.empty()) throw Error("rank " + std::to_string(i + 1) + ": " + why);
}

bool WorkerCoordinator::all_have_reference(const std::string& reference) {
  const std::string name = std::filesystem::path(reference).filename().string();
  for (size_t i = 0; i < workers_.size(); ++i) send(i, {{"have", name}});
  bool all = true;
  const auto end = Clock::now() + timeout_;
  for (size_t i = 0; i < workers_.size(); ++i) {
    json message;
    while (!message.contains("have")) {  // messages of an earlier trial come first
      receive(i, message, kWorkersTick);
      check();
      if (process::interrupted()) return false;
      if (Clock::now() >= end) throw Error("rank " + std::to_string(i + 1) + ": its memtune does not answer");
    }
    all &= message.at("have") == true;
  }
  return all;
}

std::unique_ptr<LocalOrRemoteRankTrialProcess> WorkerCoordinator::start(int rank, json trial,
                                                                        LocalPathsForRemoteRankLogAndCosts to,
                                                                        FileSystem& files) {
  trial["start"] = ++trials_;
  send(static_cast<size_t>(rank - 1), trial);
  return std::make_unique<RemoteRankProcess>(*this, rank, trials_, std::move(to), files);
}

void WorkerCoordinator::end(int code) {
  if (std::exchange(ended_, true)) return;
  for (size_t i = 0; i < workers_.size(); ++i) {
    // A worker that reads nothing notices the end of the connection instead.
    if (launch::wait_until_ready(workers_[i].connection->socket(), POLLOUT, kEndTimeout)) send(i, {{"end", code}});
  }
}

void WorkerCoordinator::listen() {
  Clock::time_point next = Clock::now();
  while (true) {
    std::vector<pollfd> sockets;
    {
      const std::scoped_lock lock(mutex_);
      if (closing_) return;
      for (size_t i = 0; i < workers_.size(); ++i)
        sockets.push_back({has_room(i) ? workers_[i].connection->socket() : -1, POLLIN, 0});
    }
    ::poll(sockets.data(), sockets.size(), static_cast<int>(kWorkersTick.count()));
    for (size_t i = 0; i < workers_.size(); ++i) receive_messages(i);
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < workers_.size(); ++i) note_silence(i);
    if (Clock::now() >= next) {
      heartbeat();
      next = Clock::now() + heartbeat_interval(timeout_);
    }
    message_received_.notify_all();
  }
}

// To be called with mutex_ held. A worker is not read while it is ahead of rank 0, so that TCP slows it down.
bool WorkerCoordinator::has_room(size_t index) const {
  const State& state = states_[index];
  return state.lost.empty() && state.messages.size() < kQueuedMessages && state.bytes < kQueuedBytes;
}

// Only the listening thread receives, so that it parses without the lock.
void WorkerCoordinator::receive_messages(size_t index) {
  State& state = states_[index];
  for (int count = 0; count < kMessagesPerTick; ++count) {
    {
      const std::scoped_lock lock(mutex_);
      if (!has_room(index)) return;
    }
    json message;
    std::string lost;
    try {
      if (!workers_[index].connection->receive(message)) return;
    } catch (const launch::PeerLostError& error) {
      lost = error.what();
    }
    const std::scoped_lock lock(mutex_);
    state.heard = Clock::now();
    if (!lost.empty()) state.lost = lost;
    if (!lost.empty() || (message.contains("beat") && !message.contains("phase"))) continue;
    state.bytes += workers_[index].connection->received_bytes();
    state.messages.emplace_back(std::move(message), workers_[index].connection->received_bytes());
  }
}

// To be called with mutex_ held.
void WorkerCoordinator::note_silence(size_t index) {
  State& state = states_[index];
  if (!state.lost.empty()) return;
  if (!has_room(index)) state.heard = Clock::now();  // it is not read now
  if (Clock::now() - state.heard > timeout_) state.lost = "it has not responded for " + seconds_text(timeout_);
}

void WorkerCoordinator::heartbeat() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    // Otherwise a message is being sent, which also counts as a heartbeat.
    const std::unique_lock poll_output(states_[i].sending, std::try_to_lock);
    if (!poll_output || !states_[i].lost.empty() || !workers_[i].connection->is_writable()) continue;
    try {
      workers_[i].connection->send({{"beat", true}});
    } catch (const launch::PeerLostError& error) {
      states_[i].lost = error.what();
    }
  }
}

}  // namespace memtune::sweep
