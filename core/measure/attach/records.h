// Reads the records of the shim in each process that trains, while they are written. Lines that are no records are
// skipped, because a process may be killed while it writes. The first invalid record is kept as text, because the
// script can write to the file. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/confined_file_system.h"
#include "core/record/measurement/out_of_memory_breakdown.h"
#include "core/record/measurement/step_memory_breakdown.h"
#include "core/record/measurement/training_phase_time_shares.h"
#include "core/record/trace/kinds.h"

namespace memtune::attach {

enum class MeasurementPhase { warmup, measured, between, traced };  // between: tracing starts in it

// A step lasts from one optimizer step to the next.
struct StepRecord {
  int64_t number = 0;  // from 1 on
  MeasurementPhase phase = MeasurementPhase::warmup;
  std::optional<double> ms, optimizer_ms;                             // none for the first step, whose begin is unknown
  double save_ms = 0;                                                 // part of `ms` that saves took
  bool skipped = false;                                               // by a gradient scaler after an overflow
  int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;  // highest so far; 0: unknown
  int64_t held_bytes = 0;                                             // allocated at its end; on a CPU resident
  int64_t retries = 0, segments = 0;                                  // of PyTorch's allocator, so far and at its end
  std::vector<double> losses;                                         // the values that backward started from
  std::vector<double> unscaled;  // those without constant factors of the script; empty: it has none
  double outside_ms = 0;         // part of `ms` outside of forward, backward, update and saves
  double wait_ms = 0;            // time until loaders returned their batches
  std::optional<result::TrainingPhaseTimeShares> parts_ms;  // in ms; none: not known
  int64_t without_gradients = 0;  // runs of the model without gradients, as in an evaluation or a generation
  int64_t batches = 0;            // that loaders returned during the step
  // Of the batch of each backward; 0: unknown. Tokens are without padding; positions are those that the model is given.
  std::vector<int64_t> rows, tokens, positions;
};

struct StateSaveRecord {
  int64_t step = 0;  // the step before it
  double ms = 0;
  int64_t bytes = 0;
};

// Steps that differ from the others.
struct StepPeriodicityRecord {
  int64_t steps = 0;               // after which they come again; 0: no period was seen
  std::vector<int64_t> differing;  // numbers of the steps
};

// Parameters of the optimizers at their first update.
struct ParametersWithoutGradientRecord {
  int64_t trained = 0, without = 0;
  std::vector<std::string> names;  // of some that had no gradient
};

// An allocation that failed. The script may have caught the exception.
struct OutOfMemoryRecord {
  double time_s = 0;  // by the system clock
  result::OutOfMemoryBreakdown figures;
};

// What is allocated at the end of a step, by kind.
struct StepEndMemoryBreakdown {
  int64_t step = 0;
  int64_t parameters_bytes = 0, gradients_bytes = 0, optimizer_bytes = 0, buffers_bytes = 0, rest_bytes = 0;
  std::vector<result::AllocatingSourceLine> lines;  // of the rest
};

// What was allocated at a moment since the start of the trace.
struct MemoryCurvePoint {
  int64_t time_ns = 0, bytes = 0;
  std::array<int64_t, result::kMemoryKinds> by_kind = {};
};

// The memory of the last traced step.
struct TracedStepMemoryRecord {
  result::StepMemoryBreakdown figures;  // without its file
  std::string file;                     // of call paths, a name within the folder; "": none
  std::vector<MemoryCurvePoint> curve;  // in order of time
};

// Times are since the start of the trace.
struct RegionSpan {
  trace::TraceRegionKey region;  // its block: index into KernelTraceFileAndRegionSpans::blocks
  int64_t start_ns = 0, end_ns = 0;
};

// The traced steps.
struct KernelTraceFileAndRegionSpans {
  std::string file;  // of kernels and copies, a name within the folder; "": none
  int64_t steps = 1;
  int64_t start_ns = 0;  // of the trace, by the clock that all processes share
  std::vector<std::string> blocks;
  std::vector<RegionSpan> regions;
};

// The records of one process.
struct TrainingProcessRecords {
  int64_t pid = 0, rank = 0, world = 1;
  bool cuda = false, done = false;  // done: it took all its steps and was asked to end
  std::string device, torch, python;
  std::optional<int64_t> data;  // checksum of its first batch; none: not taken
  std::string dtype;            // least precise dtype in its first step; "": unknown
  std::vector<StepRecord> steps;
  std::vector<StateSaveRecord> saves;
  std::vector<std::string> notes;
  std::string exception_type, exception_text;         // that ended it; "": none
  double exception_s = 0;                             // time by the system clock
  int64_t pinned_bytes = 0, free_bytes = 0;           // of the host and the device, if the driver refused memory
  std::vector<OutOfMemoryRecord> failed_allocations;  // the first few, and the last
  std::vector<StepEndMemoryBreakdown> held;           // in the order of steps
  std::optional<KernelTraceFileAndRegionSpans> trace;
  std::optional<TracedStepMemoryRecord> memory;
  std::optional<StepPeriodicityRecord> period;
  ParametersWithoutGradientRecord gradients;
  bool planned = false;    // the plan that it was given is in effect
  std::string plan_error;  // why it is not; "": unknown
  std::string refused;     // the first record with an impossible or missing value; "": none
};

class RecordFolderReader {
 public:
  explicit RecordFolderReader(const std::filesystem::path& path) : path_(path), files_(path) {}

  // Reads what was written since the last call. Returns false if there was nothing.
  bool poll();

  const std::vector<TrainingProcessRecords>& processes() const {
    return processes_;
  }                                                // in the order of their first record
  bool python_started() const { return python_; }  // some Python process loaded the shim
  bool torch_started() const { return torch_; }    // and imported PyTorch
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Tail {
    std::string name;
    int64_t read_bytes = 0;
    std::string line;  // the incomplete last line
  };

  bool read(Tail& tail, TrainingProcessRecords& records);

  std::filesystem::path path_;
  ConfinedFileSystem files_;
  std::vector<Tail> tails_;
  std::vector<TrainingProcessRecords> processes_;
  bool python_ = false, torch_ = false;
};

}  // namespace memtune::attach
