// What a sweep found, ready to be printed: the table, JSON, CSV and trainer configs are all made from this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/result/measurement.h"

namespace memtune::report {

struct Row {
  result::Measurement measurement;
  bool pareto = false;  // no other trial of the same batch and sequence is both faster and smaller
  bool recommended = false;
  std::optional<int64_t> batch;  // set when it is an axis of the sweep
  std::optional<int64_t> sequence;
};

struct Recommendation {
  std::string strategy;  // "": there is none, and the reason says why
  std::string reason;    // in words: "the fastest of three within 16 GiB"
  bool fits = true;      // false: nothing keeps the budget
  std::optional<int64_t> batch, sequence;
};

struct Report {
  std::string version;             // memtune's
  std::string model;               // "model.pt", "decoder-tiny (profile)"
  std::string device;              // "NVIDIA H200", "CPU (2 cores)"
  std::string settings;            // one line: inputs, loss, optimizer, dtype; may be empty
  std::string reference = "none";  // strategy whose rows the others are compared with
  bool emulated = false;           // the CPU played the device
  int64_t budget_bytes = 0;        // of the device's memory; 0: none
  std::vector<Row> rows;           // in any order
  Recommendation recommendation;
  std::vector<findings::Finding> findings;  // in the recommended trial's trace, heaviest first; empty without a trace
  std::vector<std::string> notes;           // what the person should know, a line each
};

// Rows as people want to read them: those that worked, fastest first (most samples a second first when batch or
// sequence is an axis), then those that failed, in the report's order.
std::vector<const Row*> ranked(const Report& report);

// The row that `row` is compared with: the reference strategy at the same batch and sequence, if it worked. May be
// `row` itself; nullptr when there is none.
const Row* reference_row(const Report& report, const Row& row);

}  // namespace memtune::report
