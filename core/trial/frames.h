// The trial's side of the protocol in core/config/trial_protocol.h: one JSON object a line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace memtune::trial {

class Frames {
 public:
  // Writes to the frame descriptor when it is open, else to stdout (a person runs the trial by hand).
  Frames();
  void phase(const std::string& name, int step, int steps, const std::string& note = "");
  void send(const nlohmann::json& frame);

 private:
  int descriptor_;
};

}  // namespace memtune::trial
