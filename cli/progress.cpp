#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/utf8.h"
#include "core/record/measurement/trial_result_row.h"

namespace memtune::cli {
namespace {

std::string describe(const sweep::TrialPhaseProgress& phase) {
  if (phase.steps == 0) return phase.name;
  return phase.name + " " + std::to_string(phase.step) + "/" + std::to_string(phase.steps) +
         (phase.note.empty() ? "" : "  " + phase.note);
}

std::string figures(double step_ms, int64_t peak_bytes) {
  return fixed(step_ms, digits_for(step_ms)) + " ms, " + format_bytes(peak_bytes);
}

// "327.4 ms, 13.19 GiB", or the failure with its reason.
std::string outcome_text(const result::TrialMeasurement& m) {
  if (m.outcome != result::TrialOutcome::ok) return to_string(m.outcome) + (m.reason.empty() ? "" : ": " + m.reason);
  return figures(m.step_ms.median, required_bytes(m));
}

// "blocked 12 ms, 41 ms until it was on the disk".
std::string outcome_text(const result::StateSaveModeMeasurement& save) {
  if (save.outcome != result::TrialOutcome::ok) return to_string(save.outcome) + ": " + save.reason;
  return "blocked " + ms_text(save.blocked_ms) + ", " + ms_text(save.durable_ms) + " until it was on the disk";
}

std::string format_time(std::chrono::seconds time) {
  const int64_t seconds = time.count();
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " min";
}

}  // namespace

Progress::Progress(const ConsoleFlags& flags, const RunFolder* folder)
    : flags_(flags), folder_(folder), terminal_(!flags.quiet && isatty(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

void Progress::erase() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void Progress::clear() {
  erase();
  if (within_line_) std::fputc('\n', stderr);
  within_line_ = false;
}

void Progress::printed(std::string_view text) {
  erase();
  std::fwrite(text.data(), 1, text.size(), stderr);
  within_line_ = !text.ends_with('\n');
  draw(status_);
}

void Progress::noted(const std::string& note) {
  clear();
  say(flags_, note);
}

void Progress::inspecting(const sweep::TrialPhaseProgress& phase) { draw("inspecting the model", phase); }

void Progress::planning(size_t budget, size_t budgets) {
  const std::string which =
      budget == 0 ? "reading" : "budget " + std::to_string(budget) + "/" + std::to_string(budgets);
  draw("computing plans  " + which);  // the number of trials is still unknown
}

void Progress::planned(const std::vector<sweep::SweepTrialEntry>& trials, size_t reused, size_t runs) {
  to_run_ = ended_ + runs;
  if (reused == 0) return;
  noted("continuing: " + std::to_string(reused) + " of " + std::to_string(trials.size()) + " trials are already done");
}

void Progress::started(const sweep::SweepTrialEntry& trial, int round) {
  if (ended_ == 0) first_start_ = Clock::now();
  if (folder_) folder_->begin();
  current_ = result::label(trial.strategy, trial.batch, trial.sequence) +
             (round > 1 ? ", round " + std::to_string(round) : "");
  predicted_ = trial.predicted;
  draw(current_, {"start", 0, 0});
}

void Progress::phase(const sweep::TrialPhaseProgress& phase) { draw(current_, phase); }

void Progress::ended(const result::TrialMeasurement& measurement) {
  print_end(outcome_text(measurement) +
            (predicted_ ? "; predicted " + figures(predicted_->step_ms, required_bytes(*predicted_)) : ""));
}

void Progress::save_started(const std::string& mode, size_t left) {
  to_run_ = ended_ + left;
  current_ = "saving, " + mode;
  draw(current_, {"start", 0, 0});
}

void Progress::save_ended(const result::StateSaveModeMeasurement& save) { print_end(outcome_text(save)); }

void Progress::print_end(const std::string& outcome) {
  ++ended_;
  last_end_ = Clock::now();
  clear();
  say(flags_, count(ended_) + current_ + "  " + outcome);
}

std::string Progress::count(size_t trial) const {
  const std::string all = std::to_string(to_run_), number = std::to_string(std::min(trial, to_run_));
  return "[" + std::string(all.size() - number.size(), ' ') + number + "/" + all + "] ";
}

std::string Progress::remaining_time() const {
  if (ended_ == 0) return "";
  // Assumes the average time of earlier trials, less the time that the current one has used.
  const auto each = (last_end_ - first_start_) / static_cast<int64_t>(ended_);
  const auto used = std::min(Clock::now() - last_end_, each);
  const auto left = each * static_cast<int64_t>(to_run_ - ended_) - used;
  return "  about " + format_time(std::chrono::ceil<std::chrono::seconds>(left)) + " left";
}

void Progress::draw(const std::string& what, const sweep::TrialPhaseProgress& phase) {
  draw((to_run_ > 0 ? count(ended_ + 1) : "") + printable_line(what + "  " + describe(phase)) + remaining_time());
}

void Progress::draw(const std::string& line) {
  status_ = line;
  if (!terminal_ || within_line_) return;
  const size_t width = static_cast<size_t>(std::max(terminal_width(STDERR_FILENO), 2)) - 1;
  std::fprintf(stderr, "\r\x1b[K%s", line.substr(0, width).c_str());  // a wrapped line would stay
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace memtune::cli
