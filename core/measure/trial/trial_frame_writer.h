// The trial's side of the protocol in core/plan/request/trial_protocol.h: one JSON object per line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace memtune::trial {

class TrialFrameWriter {
 public:
  // Writes to the frame descriptor if it is open, else to stdout (when a user runs the trial by hand).
  TrialFrameWriter();
  void phase(const std::string& name, int step, int steps, const std::string& note = "");
  void send(const nlohmann::json& frame);

 private:
  int descriptor_;
};

}  // namespace memtune::trial
