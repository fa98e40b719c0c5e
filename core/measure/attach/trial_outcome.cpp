#include "core/measure/attach/trial_outcome.h"

#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/allocator_settings.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/message.h"
#include "core/base/text.h"
#include "core/measure/attach/memory_growth.h"
#include "core/measure/attach/merged_trace.h"
#include "core/measure/attach/plausible.h"
#include "core/measure/attach/process_records_by_rank.h"
#include "core/measure/attach/throughput.h"
#include "core/measure/process/end.h"

namespace memtune::attach {
namespace {

using process::ProcessFailure;
using result::TrialOutcome;

constexpr size_t kMaxMessage = 500;
constexpr int64_t kRoom = int64_t{1} << 30;  // free on a device that was not what ran out

std::string text_of(const result::StateSaveModeMeasurement& save) {
  return "its own saves (" + std::to_string(save.saves) + ") blocked it " + ms_text(save.blocked_ms) +
         " each, at most " + ms_text(save.most_blocked_ms) + ", for " + format_bytes(save.bytes);
}

// A launcher reports a worker's signal as text: "Signal 11 (SIGSEGV) received by PID 123". Returns 0 if there is none.
int signal_in(const std::string& text) {
  constexpr std::string_view kBefore = "Signal ", kBehind = " (SIG";
  const size_t at = text.find(kBefore), name = text.find(kBehind);
  if (at == std::string::npos || name == std::string::npos || name < at) return 0;
  const int signal = std::atoi(text.c_str() + at + kBefore.size());
  return signal > 0 && signal < NSIG ? signal : 0;
}

// The first line with a letter or digit. In a traceback, which a launcher may pass on from a worker, the last.
std::string words_of(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  if (text.find("Traceback (most recent call last)") != std::string::npos) std::ranges::reverse(lines);
  for (const std::string& line : lines)
    if (std::ranges::any_of(line, [](unsigned char c) { return std::isalnum(c) != 0; }))
      return bounded_message(trim(line), kMaxMessage);
  return "";
}

// Of the failed allocations, the last one of the size that PyTorch's message names. The script caught the others.
std::optional<result::OutOfMemoryBreakdown> out_of_memory_of(std::span<const TrainingProcessRecords> processes,
                                                             const std::string& message) {
  const std::optional<int64_t> asked = asked_bytes(message);
  const OutOfMemoryRecord* last = nullptr;
  for (const TrainingProcessRecords& each : processes)
    for (const OutOfMemoryRecord& record : each.failed_allocations) {
      const auto requested = static_cast<double>(record.figures.requested_bytes);
      const bool same = asked && std::abs(static_cast<double>(*asked) - requested) <= 0.01 * requested;  // "2.00 GiB"
      if (same && (!last || record.time_s >= last->time_s)) last = &record;
    }
  return last ? std::optional(last->figures) : std::nullopt;
}

class Judge {
 public:
  Judge(const CommandSettings& settings, const RecordFolderReader& records, const CommandExit& ending,
        const ProcessRecordsByRank& team)
      : settings_(settings), records_(records), ending_(ending), team_(team) {}

  // Impossible records are not reported as a measurement.
  std::string why_refused() const { return why_implausible(records_.processes(), settings_, ending_); }

  ProcessFailure judge() const {
    if (const auto failure = by_plan()) return *failure;
    if (all_done(records_)) return check_losses();
    if (ending_.stop == CommandKillReason::interrupt) return {TrialOutcome::interrupted, "stopped " + where()};
    if (is_timeout() && measured_steps() == 0)
      return {TrialOutcome::timeout,
              (ending_.stop == CommandKillReason::no_step ? "no step within " : "no end within ") +
                  seconds_text(ending_.limit) + ", " + where() + hint()};
    if (is_timeout() || measured_steps() >= settings_.steps.measured)  // it ended during the traced steps
      return check_losses();
    if (ended_well() && measured_steps() > 0) return check_losses();
    if (const auto failure = by_exception()) return *failure;
    if (!ended_well()) return by_status();
    return {TrialOutcome::error, "it ended by itself (exit code 0) " + where() + hint()};
  }

  void add_notes(std::vector<std::string>& notes) const {
    const int64_t measured = measured_steps();
    if (!all_done(records_) && (ended_well() || is_timeout()) && measured > 0 && measured < settings_.steps.measured)
      notes.push_back((is_timeout() ? "it was stopped at its limit of " + seconds_text(ending_.limit) + ", after "
                                    : "it ended by itself after ") +
                      std::to_string(measured) + " of " + std::to_string(settings_.steps.measured) + " measured steps");
    if (ending_.stop == CommandKillReason::shutdown_timeout)
      notes.push_back("it did not exit after its steps and was stopped");
    else if (measured_steps() >= settings_.steps.measured && ending_.stop == CommandKillReason::none && !ended_well())
      notes.push_back("after the measured steps it ended with " + status_text());
    if (team_.ignored > 0)
      notes.push_back(std::to_string(team_.ignored) + " more training processes of the command are not counted");
    for (const TrainingProcessRecords& each : records_.processes())
      for (const std::string& note : each.notes)
        if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
    if (settings_.memory_cap_bytes > 0 && !team_.ranks.empty() && !team_.ranks.front()->cuda)
      notes.push_back("the memory cap applies to CUDA memory only: on a CPU nothing was capped");
    if (!team_.ranks.empty() && !team_.ranks.front()->cuda)
      notes.push_back(
          "on a CPU the peak of a command is its process's resident memory, the interpreter and its libraries "
          "included");
  }

 private:
  bool is_timeout() const {
    return ending_.stop == CommandKillReason::timeout || ending_.stop == CommandKillReason::no_step;
  }

  std::string where() const {
    const int64_t step = steps_taken(records_);
    if (step == 0) return "before its first optimizer step";
    const int64_t asked = settings_.steps.warmup + settings_.steps.measured;  // more are taken if steps differ
    return "after step " + std::to_string(step) + (step <= asked ? " of " + std::to_string(asked) : "");
  }

  // Why no step may have been seen.
  std::string hint() const {
    if (steps_taken(records_) > 0) return "";
    if (!records_.python_started())
      return "; no Python process of it loaded memtune's measuring code: it runs no Python, or python -I, -S or -E or "
             "an environment without PYTHONPATH prevents it";
    if (!records_.torch_started()) return "; its Python imported no PyTorch";
    return "; it imported PyTorch, but no optimizer of torch.optim took a step, and steps are counted by them";
  }

  bool ended_well() const { return ending_.status && WIFEXITED(*ending_.status) && WEXITSTATUS(*ending_.status) == 0; }

  std::string status_text() const {
    if (ending_.status && WIFEXITED(*ending_.status))
      return "exit code " + std::to_string(WEXITSTATUS(*ending_.status));
    return "a signal";
  }

  int64_t measured_steps() const {
    int64_t least = team_.ranks.empty() ? 0 : settings_.steps.measured;
    for (const TrainingProcessRecords* rank : team_.ranks)
      least = std::min(least, static_cast<int64_t>(std::ranges::count_if(rank->steps, [](const StepRecord& step) {
                         return step.phase == MeasurementPhase::measured && step.ms;
                       })));
    return least;
  }

  // If the plan did not take effect, the run is not reported as the plan's.
  std::optional<ProcessFailure> by_plan() const {
    if (settings_.plan.empty()) return {};
    for (const TrainingProcessRecords& each : records_.processes())
      if (!each.plan_error.empty())
        return ProcessFailure{TrialOutcome::error,
                              "the plan cannot be applied: " + bounded_message(trim(each.plan_error), kMaxMessage)};
    if (std::ranges::all_of(team_.ranks, &TrainingProcessRecords::planned)) return {};
    return ProcessFailure{TrialOutcome::error, "the plan cannot be applied: a process trained without it"};
  }

  std::optional<ProcessFailure> by_exception() const {
    const TrainingProcessRecords* first = nullptr;  // later ones only report that the first is gone
    for (const TrainingProcessRecords& each : records_.processes())
      if (!each.exception_type.empty() && (!first || each.exception_s < first->exception_s)) first = &each;
    if (!first) return {};
    if (const int signal = signal_in(first->exception_text))
      return process::classify_end(signal, ending_.memory_kills, where(), "of a process that the command started");
    const std::string line = words_of(first->exception_text);
    const std::string pinned = is_of_pinned_memory(*first)
                                   ? "; page-locked host memory cannot be had: " + format_bytes(first->pinned_bytes) +
                                         " of it are in use, and " + format_bytes(first->free_bytes) +
                                         " are free on the device"
                                   : "";
    return ProcessFailure{outcome_of(*first), first->exception_type + ": " + line + " (" + where() + ")" + pinned};
  }

  // The driver reports it with the words that it has for the device.
  static bool is_of_pinned_memory(const TrainingProcessRecords& each) {
    return each.pinned_bytes > 0 && each.free_bytes >= kRoom;
  }

  static TrialOutcome outcome_of(const TrainingProcessRecords& each) {
    if (is_of_pinned_memory(each)) return TrialOutcome::host_oom;
    const auto says = [&](const char* words) { return each.exception_text.find(words) != std::string::npos; };
    if (each.exception_type == "OutOfMemoryError" || says("CUDA out of memory") || says("CUDA error: out of memory"))
      return TrialOutcome::device_oom;
    if (each.exception_type == "MemoryError" || says("can't allocate memory") || says("std::bad_alloc"))
      return TrialOutcome::host_oom;
    return says("No space left on device") ? TrialOutcome::disk_full : TrialOutcome::error;
  }

  // A launcher turns the SIGKILL of a worker into an exit code of its own.
  ProcessFailure by_status() const {
    if (ending_.memory_kills.value_or(0) > 0)
      return {TrialOutcome::host_oom, "the kernel killed a process of it, most likely out of host memory, " + where() +
                                          "; " + ending_.log_tail};
    ProcessFailure failure =
        process::classify_end(ending_.status.value_or(SIGKILL), ending_.memory_kills, where(), ending_.log_tail);
    const auto said = [&](const char* words) { return ending_.log_tail.find(words) != std::string::npos; };
    if (failure.outcome == TrialOutcome::error && (said("OutOfMemoryError") || said("CUDA out of memory")))
      failure.outcome = TrialOutcome::device_oom;
    return failure;
  }

  ProcessFailure check_losses() const {
    const std::vector<StepRecord>& steps = team_.ranks.front()->steps;
    const auto last = std::ranges::find_if(
        steps.rbegin(), steps.rend(), [](const StepRecord& step) { return !step.skipped && !step.losses.empty(); });
    if (last != steps.rend() && std::ranges::any_of(last->losses, [](double loss) { return std::isnan(loss); }))
      return {TrialOutcome::nan, "the loss of step " + std::to_string(last->number) + " is not a number"};
    return {TrialOutcome::ok, ""};
  }

  const CommandSettings& settings_;
  const RecordFolderReader& records_;
  const CommandExit& ending_;
  const ProcessRecordsByRank& team_;
};

}  // namespace

bool all_done(const RecordFolderReader& records) {
  const ProcessRecordsByRank team = rank_records_of(records.processes());
  return !team.ranks.empty() && std::ranges::all_of(team.ranks, &TrainingProcessRecords::done);
}

int64_t steps_taken(const RecordFolderReader& records) {
  const ProcessRecordsByRank team = rank_records_of(records.processes());
  int64_t least = team.ranks.empty() ? 0 : team.ranks.front()->steps.back().number;
  for (const TrainingProcessRecords* rank : team.ranks) least = std::min(least, rank->steps.back().number);
  return least;
}

CommandProgress progress_of(const RecordFolderReader& records, const StepCounts& asked) {
  CommandProgress now;
  now.step = steps_taken(records);
  now.steps = std::max<int64_t>(asked.warmup + asked.measured, now.step);  // more are measured if steps differ
  for (const TrainingProcessRecords* rank : rank_records_of(records.processes()).ranks) {
    const auto latest = std::ranges::find(rank->steps, now.step, &StepRecord::number);
    if (latest == rank->steps.end()) continue;
    if (latest->phase > MeasurementPhase::measured) now.steps = 0;
    if (latest->ms) now.step_ms = std::max(now.step_ms.value_or(0), *latest->ms);
    now.peak_bytes = std::max(now.peak_bytes, latest->allocated_bytes);
  }
  return now;
}

MeasuredTrainingCommandResult make_result(const CommandSettings& settings, const RecordFolderReader& records,
                                          const CommandExit& ending) {
  const ProcessRecordsByRank team = rank_records_of(records.processes());
  const Judge judge(settings, records, ending, team);
  MeasuredTrainingCommandResult made;
  result::TrialMeasurement& measurement = made.row.measurement;
  measurement.strategy = settings.name;
  if (const std::string why = judge.why_refused(); !why.empty()) {
    measurement.outcome = TrialOutcome::error;
    measurement.reason = "its records are not plausible: " + why;
    return made;
  }
  const ProcessFailure failure = judge.judge();
  measurement.outcome = failure.outcome;
  measurement.reason = failure.reason;
  measurement.fragmented = failure.outcome == TrialOutcome::device_oom && says_fragmented(failure.reason);
  if (failure.outcome == TrialOutcome::device_oom)
    measurement.oom = out_of_memory_of(records.processes(), failure.reason);
  judge.add_notes(made.notes);
  fill_measurement(team, measurement);
  add_notes(team, made.notes);
  if (measurement.growth && measurement.growth->grows)
    made.notes.push_back(growth_text(*measurement.growth, team.ranks.front()->cuda ? settings.device_bytes : 0,
                                     result::required_bytes(measurement)));
  fill_throughput(team, measurement, made.notes);
  fill_traced(team, records.path(), settings.folder / "trace.mttrace",
              settings.files ? *settings.files : system_files(), measurement, made.notes);
  made.device_traced = std::ranges::any_of(
      team.ranks, [](const TrainingProcessRecords* rank) { return rank->trace && !rank->trace->file.empty(); });
  made.row.saves = save_figures(team, measurement);
  for (const result::StateSaveModeMeasurement& save : made.row.saves) made.notes.push_back(text_of(save));
  if (!team.ranks.empty()) made.torch = team.ranks.front()->torch;
  return made;
}

}  // namespace memtune::attach
