#include "core/sweep/ranks/worker_group.h"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/sweep/launch/socket.h"
#include "core/sweep/trials/trial_frame_reader.h"

namespace memtune::sweep {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr milliseconds kWorkersTick{50};
constexpr int kFailedCode = 1;

}  // namespace

struct WorkerGroup::State {
  std::mutex sending;  // held while a message is sent to this worker
  std::deque<json> messages;
  std::string lost;  // the reason; "" while it is connected
  Clock::time_point heard = Clock::now();
};

// A rank's trial that runs in another memtune process.
class RemoteRankProcess final : public RankProcess {
 public:
  RemoteRankProcess(WorkerGroup& workers, int rank, int id, WorkerFiles to, FileSystem& files)
      : workers_(workers), rank_(rank), id_(id), to_(std::move(to)), files_(files), reader_({}) {}
  ~RemoteRankProcess() override {
    if (!ended_) end();
  }

  bool poll_output(milliseconds timeout) override {
    json message;
    const auto index = static_cast<size_t>(rank_ - 1);
    if (!ended_ && workers_.receive(index, message, timeout)) take(message);
    if (!ended_) lost_ = workers_.why_lost(index);
    ended_ |= !lost_.empty();
    return !ended_;
  }

  void end() override {
    if (ended_ || std::exchange(told_, true)) return;
    workers_.send(static_cast<size_t>(rank_ - 1), {{"stop", id_}});
  }

  bool stopped_by_other_rank() const override { return others_; }
  const TrialProgress& phase() const override { return reader_.phase(); }

  TrialAnswer answer() const override {
    if (reader_.answer()) return *reader_.answer();
    return ProcessFailure{result::Outcome::error, lost_.empty() ? "its answer is invalid" : lost_};
  }

 private:
  void take(const json& message) try {
    if (!message.contains("of") || message.at("of") != id_) return;  // of an earlier trial
    if (message.contains("phase")) reader_.add(print_json(message.at("phase")) + "\n");
    if (!message.contains("done")) return;
    ended_ = true;
    reader_.add(print_json(message.at("answer")) + "\n");
    others_ = message.at("others");
    write_file(to_.log, message.at("log").get<std::string>(), files_);
    if (const auto costs = message.at("costs").get<std::string>(); !to_.costs.empty() && !costs.empty())
      write_file(to_.costs, costs, files_);
  } catch (const std::exception&) {  // an invalid answer counts as none; a file that cannot be written is missing
  }

  WorkerGroup& workers_;
  const int rank_, id_;
  const WorkerFiles to_;
  FileSystem& files_;
  TrialFrameReader reader_;
  bool ended_ = false, told_ = false, others_ = false;
  std::string lost_;
};

WorkerGroup::WorkerGroup(std::vector<WorkerConnection> workers, std::string address, milliseconds timeout)
    : workers_(std::move(workers)),
      states_(workers_.size()),
      address_(std::move(address)),
      timeout_(timeout),
      listening_([this] { listen(); }) {}

WorkerGroup::~WorkerGroup() {
  end(kFailedCode);
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  listening_.join();
}

// Ranks on the machine of rank 0 connect over loopback, which other machines cannot reach. Their address is that of
// rank 0.
std::string WorkerGroup::address(int rank) const {
  const std::string& own = rank == 0 ? address_ : workers_.at(static_cast<size_t>(rank - 1)).address;
  return launch::is_loopback(own) ? address_ : own;
}

int WorkerGroup::on_this_machine() const {
  int ranks = 0;
  for (int rank = 0; rank < size(); ++rank) ranks += address(rank) == address_ ? 1 : 0;
  return ranks;
}

void WorkerGroup::send(size_t index, const json& message) {
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

bool WorkerGroup::receive(size_t index, json& message, milliseconds timeout) {
  std::unique_lock lock(mutex_);
  State& state = states_[index];
  message_received_.wait_for(lock, timeout, [&] { return !state.messages.empty() || !state.lost.empty(); });
  if (state.messages.empty()) return false;
  message = std::move(state.messages.front());
  state.messages.pop_front();
  return true;
}

std::string WorkerGroup::why_lost(size_t index) const {
  const std::scoped_lock lock(mutex_);
  const State& state = states_[index];
  if (state.lost.empty() || !state.messages.empty()) return "";
  return "its memtune on " + workers_[index].host + " is lost: " + state.lost;
}

void WorkerGroup::check() const {
  for (size_t i = 0; i < workers_.size(); ++i)
    if (const std::string why = why_lost(i); !why.empty()) throw Error("rank " + std::to_string(i + 1) + ": " + why);
}

bool WorkerGroup::all_have_reference(const std::string& reference) {
  const std::string name = std::filesystem::path(reference).filename().string();
  for (size_t i = 0; i < workers_.size(); ++i) send(i, {{"have", name}});
  bool all = true;
  for (size_t i = 0; i < workers_.size(); ++i) {
    json message;
    while (!message.contains("have")) {  // messages of an earlier trial come first
      receive(i, message, kWorkersTick);
      check();
    }
    all &= message.at("have") == true;
  }
  return all;
}

std::unique_ptr<RankProcess> WorkerGroup::start(int rank, json trial, WorkerFiles to, FileSystem& files) {
  trial["start"] = ++trials_;
  send(static_cast<size_t>(rank - 1), trial);
  return std::make_unique<RemoteRankProcess>(*this, rank, trials_, std::move(to), files);
}

void WorkerGroup::end(int code) {
  if (std::exchange(ended_, true)) return;
  for (size_t i = 0; i < workers_.size(); ++i) send(i, {{"end", code}});
}

void WorkerGroup::listen() {
  Clock::time_point next = Clock::now();
  while (true) {
    std::vector<pollfd> sockets;
    {
      const std::scoped_lock lock(mutex_);
      if (closing_) return;
      for (size_t i = 0; i < workers_.size(); ++i)
        sockets.push_back({states_[i].lost.empty() ? workers_[i].connection->socket() : -1, POLLIN, 0});
    }
    ::poll(sockets.data(), sockets.size(), static_cast<int>(kWorkersTick.count()));
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < workers_.size(); ++i) receive_messages(i);
    if (Clock::now() >= next) {
      heartbeat();
      next = Clock::now() + heartbeat_interval(timeout_);
    }
    message_received_.notify_all();
  }
}

void WorkerGroup::receive_messages(size_t index) {
  State& state = states_[index];
  if (!state.lost.empty()) return;
  try {
    for (json message; workers_[index].connection->receive(message);) {
      state.heard = Clock::now();
      if (!message.contains("beat") || message.contains("phase")) state.messages.push_back(std::move(message));
    }
    if (Clock::now() - state.heard > timeout_)
      throw launch::PeerLostError("it has not responded for " + seconds_text(timeout_));
  } catch (const launch::PeerLostError& error) {
    state.lost = error.what();
  }
}

void WorkerGroup::heartbeat() {
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
