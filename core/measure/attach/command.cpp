#include "core/measure/attach/command.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/file.h"
#include "core/measure/attach/records.h"
#include "core/measure/attach/subreaper_command_supervisor.h"
#include "core/measure/attach/trial_outcome.h"
#include "core/measure/process/child.h"
#include "core/measure/process/end.h"
#include "core/measure/process/interrupt.h"
#include "core/measure/process/log.h"

namespace memtune::attach {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kDrainTime{2000};  // to read the rest of the output
constexpr milliseconds kTick{50};         // how often records and limits are checked

class RunningCommand {
 public:
  explicit RunningCommand(const CommandSettings& settings)
      : settings_(settings),
        log_(settings.folder / settings.log, settings.files ? *settings.files : system_files()),
        records_(shim_.records()),
        kills_before_(process::count_memory_kills()),
        begin_(Clock::now()),
        step_deadline_(begin_ + settings.limit) {
    process::Pipe said;
    supervisor_.emplace(settings.command,
                        shim_.environment(settings.steps, settings.memory_cap_bytes, settings.plan, settings.allocator,
                                          static_cast<bool>(settings.output)),
                        said.write.get(), shim_.path());
    said_ = std::move(said.read);
  }

  CommandExit wait() {
    while (!supervisor_->status()) {
      listen(kTick);
      if (records_.poll()) report_progress();
      if (ending_.stop == CommandKillReason::none) look_for_stop();
      if (ending_.stop != CommandKillReason::none && Clock::now() >= kill_at_) break;
    }
    ending_.status = supervisor_->status();
    supervisor_->end();  // processes it left behind
    ending_.wall = std::chrono::ceil<milliseconds>(Clock::now() - begin_);
    for (const auto timeout = Clock::now() + kDrainTime; listen(milliseconds(0)) && Clock::now() < timeout;) {
    }
    if (records_.poll()) report_progress();
    log_.finish();
    ending_.log_tail = log_.log_tail();
    const std::optional<int64_t> now = process::count_memory_kills();
    if (kills_before_ && now) ending_.memory_kills = *now - *kills_before_;
    return ending_;
  }

  const RecordFolderReader& records() const { return records_; }

 private:
  // Reads output of the command, waiting at most `timeout`. Returns false if there was none.
  bool listen(milliseconds timeout) {
    std::array<pollfd, 2> waiting{{{said_.get(), POLLIN, 0}, {supervisor_->descriptor(), POLLIN, 0}}};
    if (poll(waiting.data(), waiting.size(), static_cast<int>(timeout.count())) <= 0) return false;
    if (waiting[0].revents == 0) return false;
    std::array<char, 1 << 16> bytes;
    const ssize_t count = ::read(said_.get(), bytes.data(), bytes.size());
    if (count <= 0) {
      said_ = FileDescriptor();
      return false;
    }
    const std::string_view text(bytes.data(), static_cast<size_t>(count));
    log_.add(text);
    if (settings_.output) settings_.output(text);
    return true;
  }

  void look_for_stop() {
    if (process::interrupted()) {
      begin_stop(CommandKillReason::interrupt);
    } else if (all_done(records_)) {
      if (!done_at_) done_at_ = Clock::now();
      if (Clock::now() >= *done_at_ + settings_.shutdown_timeout) begin_stop(CommandKillReason::shutdown_timeout);
    } else if (settings_.whole_limit && Clock::now() >= begin_ + *settings_.whole_limit) {
      ending_.limit = *settings_.whole_limit;
      begin_stop(CommandKillReason::timeout);
    } else if (Clock::now() >= step_deadline_) {
      ending_.limit = settings_.limit;
      begin_stop(CommandKillReason::no_step);
    }
  }

  void begin_stop(CommandKillReason stop) {
    ending_.stop = stop;
    kill_at_ = Clock::now() + settings_.grace;
    supervisor_->terminate();
  }

  void report_progress() {
    const CommandProgress now = progress_of(records_, settings_.steps);
    if (now.step == told_step_) return;
    step_deadline_ = Clock::now() + settings_.limit;
    told_step_ = now.step;
    if (settings_.progress) settings_.progress(now);
  }

  const CommandSettings& settings_;
  ShimFolder shim_;
  process::ProcessLog log_;
  RecordFolderReader records_;
  FileDescriptor said_;
  std::optional<SubreaperCommandSupervisor> supervisor_;
  std::optional<int64_t> kills_before_;
  Clock::time_point begin_, step_deadline_, kill_at_;
  std::optional<Clock::time_point> done_at_;
  int64_t told_step_ = 0;
  CommandExit ending_;
};

MeasuredTrainingCommandResult read_records(const CommandSettings& settings) {
  RecordFolderReader records(settings.records);
  records.poll();
  const bool failed = std::ranges::any_of(
      records.processes(), [](const TrainingProcessRecords& each) { return !each.exception_type.empty(); });
  CommandExit ending;
  ending.status = W_EXITCODE(failed ? 1 : 0, 0);
  return make_result(settings, records, ending);
}

}  // namespace

MeasuredTrainingCommandResult measure_command(const CommandSettings& settings) {
  if (!settings.records.empty()) return read_records(settings);
  RunningCommand running(settings);
  const CommandExit ending = running.wait();
  return make_result(settings, running.records(), ending);
}

}  // namespace memtune::attach
