// The data of a plan's Python file: "PLAN: dict[str, Any] = {...}" with only strings, numbers and brackets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/answer/trainer/equal_blocks_torch_function_placements.h"

namespace memtune::trainer {

// Parameters and optimizer states that the file offloads to host memory.
struct PythonPlanOffloadedStates {
  std::vector<int> parameters = {}, moments = {};  // of which blocks
  bool outside = false;                            // optimizer states of what is outside of blocks, too
  bool deferred = false;                           // the next forward updates, not backward
};

struct PythonPlanData {
  bool compiled = false;              // otherwise eager
  bool offloads_activations = false;  // offloads to host memory
  std::string name;                   // of the strategy
  std::string path;                   // "model.layers"
  int blocks = 0;
  int64_t parameters = 0;
  // Only eager:
  bool offloads_input = false;  // offloads the first block's input
  std::vector<std::string> regions = {};
  std::vector<EqualBlocksTorchFunctionPlacements> block_policies = {};
  int64_t saved_min_bytes = 0;
  std::optional<PythonPlanOffloadedStates> states = {};
  // Only with offload:
  int64_t min_bytes = 0, stash_bytes = 0, prefetch_blocks = 0;
  // Only compiled:
  int64_t left_bytes = 0, hidden_bytes = 0, peak_bytes = 0;
};

// The lines that assign PLAN.
std::string to_python(const PythonPlanData& data);

// Reads PLAN from a file's text and ignores the rest. Throws UsageError if it is missing, or has anything but literals
// under the keys of to_python().
PythonPlanData read_python_data(std::string_view file);

}  // namespace memtune::trainer
