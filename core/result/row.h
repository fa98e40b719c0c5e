// A trial that has ended, as a line of the answer: what it measured, at which batch and sequence, and what it turned
// out to be among the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result/measurement.h"
#include "core/result/predicted.h"
#include "core/result/save_measurement.h"

namespace memtune::result {

struct Row {
  Measurement measurement;
  bool pareto = false;  // no other trial of the same batch and sequence is both faster and smaller
  bool recommended = false;
  std::optional<int64_t> batch;  // set when it is an axis of the sweep
  std::optional<int64_t> sequence;
  std::vector<SaveMeasurement> saves = {};  // of states under its plan, a way each; empty: not measured
  int64_t passes = 1;                       // forward and backward, of a step
  std::vector<std::string> command = {};    // that was measured, where it is no trial of memtune's own
  std::string config = {};                  // path of the config that was made for it; "": none
  std::string python = {};                  // path of the plan in Python that it was run under; "": none
  bool base = false;                        // of a sweep of commands the one as it is; of others `none` is
  std::optional<Predicted> predicted = {};  // before it ran
};

bool worked(const Row& row);
bool is_base(const Row& row);                 // what others are to do better than
bool is_planned(const Row& row);              // of a plan that was made for this model and machine: "plan:..."
int64_t peak(const Row& row);                 // bytes allocated at most
bool same_axes(const Row& a, const Row& b);   // batch and sequence
bool same_trial(const Row& a, const Row& b);  // strategy, batch and sequence

// "batch 2, seq 1024": the axes where there are any.
std::string axes_text(std::optional<int64_t> batch, std::optional<int64_t> sequence);
// "offload:stream, batch 2, seq 1024", fit for a terminal.
std::string label(const std::string& strategy, std::optional<int64_t> batch, std::optional<int64_t> sequence);
std::string label(const Row& row);

// Of rows that stay where they are.
std::vector<const Row*> pointers_to(std::span<const Row> rows);

}  // namespace memtune::result
