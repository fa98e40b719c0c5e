// What held the memory of a device when an allocation of a training command failed. Plain data, in bytes; the JSON of a
// Measurement has it as `oom`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/record/measurement/setting_in_trainer_syntax.h"

namespace memtune::result {

enum class PeakMemoryTrainingPhase {
  forward,
  backward,
  update,
  no_gradients,
  other
};  // no_gradients: evaluation, generation
std::string to_string(PeakMemoryTrainingPhase phase);
PeakMemoryTrainingPhase parse_memory_phase(const std::string& text);

// A line of the source and the live blocks that it allocated.
struct AllocatingSourceLine {
  std::string file;      // "": backward, whose thread runs no Python
  int64_t line = 0;      // from 1 on
  std::string function;  // around the line
  std::string inner;     // the innermost function of PyTorch's that it ran, "cross_entropy"; "": none
  std::string text;      // of the line
  int64_t bytes = 0, count = 0;
};

// 0: not known.
struct OomBatchRowsAndTokens {
  int64_t rows = 0, tokens = 0, positions = 0;
};

struct OomLoadedModel {
  std::string name;             // its class
  int64_t bytes = 0;            // of its parameters there
  bool trained = false;         // an optimizer has some of them
  bool with_gradients = false;  // it ran, was not trained, and kept activations for a backward
};

struct OutOfMemoryBreakdown {
  int64_t device = 0, step = 0;  // step: that ran, from 1 on
  PeakMemoryTrainingPhase phase = PeakMemoryTrainingPhase::other;
  bool evaluating = false;                       // the model ran in evaluation mode, and with gradients
  bool expandable = false;                       // the allocator's segments could grow
  bool checkpointed = false;                     // parts of the model were recomputed in backward
  bool stacks = false;                           // it kept the stacks of blocks; without them there are no lines
  int64_t requested_bytes = 0;                   // by the allocation that failed
  int64_t limit_bytes = 0;                       // that PyTorch may take of the device
  int64_t total_bytes = 0, free_bytes = 0;       // of the device
  int64_t allocated_bytes = 0;                   // in blocks that are in use
  int64_t reserved_bytes = 0;                    // of the device by the allocator
  std::optional<int64_t> other_processes_bytes;  // nothing: the driver does not tell
  int64_t start_bytes = 0;                       // allocated before the model began to run
  int64_t runs = 0, usual_runs = 0;  // with gradients: from lines that no backward followed; most before a backward
  // What is allocated, by kind; rest: activations and all else.
  int64_t parameters_bytes = 0, gradients_bytes = 0, optimizer_bytes = 0, buffers_bytes = 0, rest_bytes = 0;
  OomBatchRowsAndTokens batch, largest_batch;  // in use; the largest one before it
  std::vector<int64_t> held_after_steps;       // allocated at the end of each of the last steps
  std::vector<int64_t> amount_of_steps;        // positions, or rows, of their largest batches; 0: not known
  std::vector<int64_t> held_before_runs;       // allocated before each run without gradients since the last backward
  std::vector<OomLoadedModel> models;          // the largest first
  std::vector<AllocatingSourceLine> lines;     // of the rest, the largest first
  AllocatingSourceLine where;                  // that asked for `requested_bytes`
  std::string trainer;                         // whose library the process had loaded, "axolotl"; "": of none
  std::vector<SettingInTrainerSyntax> words;   // of the command's own trainer and flags
};

}  // namespace memtune::result
