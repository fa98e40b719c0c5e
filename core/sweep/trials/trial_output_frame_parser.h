// Parses the output of a trial process: takes bytes, and reports phases and one answer.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

class TrialOutputFrameParser {
 public:
  explicit TrialOutputFrameParser(std::function<void(const TrialPhaseProgress&)> progress)
      : progress_(std::move(progress)) {}

  void add(std::string_view bytes);

  // The last answer; none before there is one.
  const std::optional<TrialAnswer>& answer() const { return answer_; }
  const TrialPhaseProgress& phase() const { return phase_; }
  // The problem of the first invalid frame; "" if all were valid.
  const std::string& damage() const { return damage_; }

 private:
  void read_line(const std::string& line);

  std::function<void(const TrialPhaseProgress&)> progress_;
  std::string buffer_;
  std::optional<TrialAnswer> answer_;
  TrialPhaseProgress phase_;
  std::string damage_;
};

}  // namespace memtune::sweep
