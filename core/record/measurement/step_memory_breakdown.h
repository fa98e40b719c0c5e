// Who held the memory of one step of a training command. Plain data, in bytes; the JSON of a Measurement has it as
// `memory`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/record/measurement/out_of_memory_breakdown.h"

namespace memtune::result {

enum class StepMemoryCategory {
  parameters,
  gradients,
  optimizer,
  buffers,
  inputs,       // what the model is given
  activations,  // allocated in forward, or by a recomputation, and kept for backward
  logits,       // those of the model's head and of the loss, with their gradients
  attention,    // scores of attention that keeps them
  temporaries,  // freed in the pass that allocated them
  workspace,    // of libraries, as cuBLAS
  rounding,     // by which blocks are larger than was asked for
  other,
};
inline constexpr size_t kMemoryKinds = 12;
std::string to_string(StepMemoryCategory kind);
StepMemoryCategory parse_memory_kind(const std::string& text);

struct StepMemoryOfCategory {
  StepMemoryCategory kind = StepMemoryCategory::other;
  int64_t before_bytes = 0, peak_bytes = 0, end_bytes = 0;  // before the step, at its peak, at its end
};

// Modules of one name, blocks as one: "layers.*.mlp".
struct SameNamedModulesPeakMemory {
  std::string name;
  int64_t bytes = 0;        // at the peak
  int64_t saved_bytes = 0;  // those of activations, logits and attention
  int64_t count = 0;        // of modules
};

struct StepMemoryBreakdown {
  int64_t step = 0;         // from 1 on
  int64_t device = 0;       // its number
  bool saved_only = false;  // no allocator tells: what lasts, and the tensors that autograd saved
  bool complete = true;     // false: more events than were kept, so the step's begin is not known
  bool stacks = false;      // blocks have Python stacks; without them there are no lines and paths
  PeakMemoryTrainingPhase phase = PeakMemoryTrainingPhase::other;  // at the peak
  int64_t measured_bytes = 0;                                      // the step's peak by the allocator; 0: not known
  std::vector<StepMemoryOfCategory> owners;
  std::vector<AllocatingSourceLine> lines;          // of the peak without what lasts, the largest first
  std::vector<SameNamedModulesPeakMemory> modules;  // of the peak, the largest first
  std::string paths;                                // file of call paths beside the measurement; "": none
};

// Throws UsageError for negative or too many figures. All sums over owners are within bounds then.
void check(const StepMemoryBreakdown& memory);

int64_t peak_of(const StepMemoryBreakdown& memory);  // sum over the owners

// Blocks at the peak that were allocated on one call path.
struct MemoryOfCallPath {
  std::vector<std::string> frames;  // the kind, then "train.py:40:forward", the outermost first
  int64_t bytes = 0;
};

// "kind;train.py:40:main;model.py:3:forward 4096", a line each. Lines of another form are skipped, and so is what comes
// after too many of them.
std::vector<MemoryOfCallPath> parse_call_paths(std::string_view text);
std::string to_text(const std::vector<MemoryOfCallPath>& paths);

}  // namespace memtune::result
