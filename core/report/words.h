// What every form of the answer says in the same words: names of trials, the legend, the advice, the notes.
#pragma once

#include <string>
#include <vector>

#include "core/report/report.h"

namespace memtune::report {

// The strategy's name, and what it amounts to where a part of it did nothing: "offload:sync = none".
std::string shown_name(const result::Row& row);

// What has to be known before any figure is read: that others used the machine while trials ran. Said first.
std::vector<std::string> warnings(const Report& report);

// "+2.1 %", "-0.3 %", "0.0 %".
std::string signed_percent(double share);

// "268.1 ms a step, 12.3 GiB at the peak".
std::string predicted_text(const result::Predicted& predicted);

// Why a trial failed, and what was predicted of it: "device_oom, batch 2: asked for 2 GiB".
std::string failure_text(const result::Row& row);

// "NVIDIA H200", and that it was played where it was.
std::string device_text(const Report& report);

// What the marks of the table mean: "* recommended", "• no other is both faster and smaller".
std::vector<std::string> legend(const Report& report);

struct Verdict {
  std::string head;  // "Recommended", "No recommendation"; "": nothing to say
  std::string text;
  bool good = true;
};
Verdict verdict(const Report& report);

// The report's notes and what its rows give reason for: times that vary, gradients that differ, an emulation.
std::vector<std::string> notes(const Report& report);

}  // namespace memtune::report
