// The data of a plan in Python: "PLAN: dict[str, Any] = {...}", strings, numbers and brackets alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trainer/treatment.h"

namespace memtune::trainer {

struct PythonData {
  bool compiled = false;  // else eager
  bool moves = false;     // to host memory
  std::string name;       // of the strategy
  std::string path;       // "model.layers"
  int blocks = 0;
  int64_t parameters = 0;
  // Eager:
  bool moves_input = false;  // of the first block
  std::vector<std::string> regions = {};
  std::vector<Treatment> treatments = {};
  int64_t saved_min_bytes = 0;
  // What moves:
  int64_t min_bytes = 0, stash_bytes = 0, prefetch_blocks = 0;
  // Compiled:
  int64_t left_bytes = 0, hidden_bytes = 0, peak_bytes = 0;
};

// The lines that assign PLAN.
std::string to_python(const PythonData& data);

// Reads PLAN from the text of a file, whatever else is in it. UsageError when it is missing or is anything but literals
// under the keys of to_python().
PythonData read_python_data(std::string_view file);

}  // namespace memtune::trainer
