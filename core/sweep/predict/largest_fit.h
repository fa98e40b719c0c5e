// "memtune fit --batch auto" and "--seq auto": the largest batch, or the longest sequence, that fits a card.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/report/text/table.h"
#include "core/sweep/predict/fit.h"

namespace memtune::sweep {

enum class LargestAxis { batch, sequence };

struct LargestFit {
  int64_t largest = 0;       // samples, or tokens of a sample; 0: not even the smallest fits
  StrategyGpuMemoryFit fit;  // there, or at the smallest
  std::string beyond;        // why more does not run, on a larger card either; "": it does not fit
};

struct LargestFitReport {
  std::string title;
  plan::MachineProfile card;
  LargestAxis axis = LargestAxis::batch;
  int64_t samples = 1;  // a step has so many for each of a batch, or of these lengths: micro-batches, batch
  std::vector<LargestFit> strategies;
  std::optional<size_t> fastest;   // of `strategies`: least time for a sample, or for a token
  std::vector<std::string> notes;  // for the user
};

// For one card. Ignores the batches of the request, or its sequence lengths; a length is found in steps of 256 tokens.
// Throws like predict_fit(). Empty after a signal.
std::optional<LargestFitReport> find_largest_fit(const GpuMemoryFitRequest& options, LargestAxis axis,
                                                 SweepListener& listener);

std::string to_text(const LargestFitReport& report, report::TerminalCapabilities style);
nlohmann::json to_json(const LargestFitReport& report);

}  // namespace memtune::sweep
