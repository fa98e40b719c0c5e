// Texts that all formats share: names of trials, legend, recommendation, notes.
#pragma once

#include <string>
#include <vector>

#include "core/answer/report/report.h"

namespace memtune::report {

// The strategy's name, with its effective strategy if a part of it had no effect: "offload:sync = none".
std::string display_name(const result::TrialResultRow& row);

// Warnings to print before any figure: other processes used the machine during trials.
std::vector<std::string> warnings(const Report& report);

// "+2.1 %", "-0.3 %", "0.0 %".
std::string signed_percent(double share);

// "268.1 ms a step, 12.3 GiB at the peak".
std::string predicted_text(const result::TrialPrediction& predicted);

// Why a trial failed, with its prediction if it has one: "device_oom, batch 2: asked for 2 GiB".
std::string failure_text(const result::TrialResultRow& row);

// "NVIDIA H200", marked if it was emulated.
std::string device_text(const Report& report);

// Meaning of the table's marks: "* recommended", "• no other is both faster and smaller".
std::vector<std::string> legend(const Report& report);

struct RecommendationText {
  std::string head;  // "Recommended", "No recommendation"; "": nothing to print
  std::string text;
  bool good = true;
};
RecommendationText verdict(const Report& report);

// The report's notes, and notes about its rows: noisy times, differing gradients, emulation.
std::vector<std::string> notes(const Report& report);

}  // namespace memtune::report
