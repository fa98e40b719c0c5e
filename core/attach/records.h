// What the shim wrote in each process that trains, read as it grows. Lines that are no records are passed over: a
// process may be killed within one. Of records that no shim writes the first is kept in words: the script has the file
// to itself. Thread: any, one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/own_folder.h"
#include "core/trace/kinds.h"

namespace memtune::attach {

enum class StepPhase { warmup, measured, between, traced };  // between: in which tracing begins

// From one optimizer step to the next.
struct StepRecord {
  int64_t number = 0;  // from 1 on
  StepPhase phase = StepPhase::warmup;
  std::optional<double> ms, optimizer_ms;                             // the first step has no beginning
  double save_ms = 0;                                                 // of it, that saves took
  bool skipped = false;                                               // by a gradient scaler that met an overflow
  int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;  // highest so far; 0: not known
  std::vector<double> losses;                                         // that backward started from
  int64_t batches = 0;                                                // that left loaders during the step
  std::vector<int64_t> rows, tokens;  // of the last one before each of its backwards; 0: not known
};

struct SaveRecord {
  int64_t step = 0;  // behind which
  double ms = 0;
  int64_t bytes = 0;
};

// Since the trace's start.
struct RegionRecord {
  trace::Region region;  // its block: index into TraceRecord::blocks
  int64_t start_ns = 0, end_ns = 0;
};

// Of the traced steps.
struct TraceRecord {
  std::string file;  // of kernels and copies, its name within the folder; "": none
  int64_t steps = 1;
  int64_t start_ns = 0;  // of the trace, by the clock that all processes share
  std::vector<std::string> blocks;
  std::vector<RegionRecord> regions;
};

// Of one process.
struct TrainingRecords {
  int64_t pid = 0, rank = 0, world = 1;
  bool cuda = false, done = false;  // done: it took all its steps and was asked to end
  std::string device, torch, python;
  std::optional<int64_t> data;  // checksum of its first batch; nothing: not taken
  std::string dtype;            // least precise that its first step was seen to compute in; "": not told
  std::vector<StepRecord> steps;
  std::vector<SaveRecord> saves;
  std::vector<std::string> notes;
  std::string exception_type, exception_text;  // that ended it; "": none did
  double exception_s = 0;                      // when, as the system's clock has it
  std::optional<TraceRecord> trace;
  bool planned = false;    // the plan that it was given is at work
  std::string plan_error;  // why it is not; "": nothing was told
  std::string refused;     // the first record with a number that cannot be, or none at all; "": there is none
};

class RecordFolder {
 public:
  explicit RecordFolder(const std::filesystem::path& path) : path_(path), files_(path) {}

  // Takes in what has come; false when nothing did.
  bool poll();

  const std::vector<TrainingRecords>& processes() const { return processes_; }  // in the order of their first record
  bool python_began() const { return python_; }                                 // some Python process loaded the shim
  bool torch_began() const { return torch_; }                                   // and imported PyTorch
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Tail {
    std::string name;
    int64_t read_bytes = 0;
    std::string line;  // that has no end yet
  };

  bool read(Tail& tail, TrainingRecords& records);

  std::filesystem::path path_;
  OwnFolder files_;
  std::vector<Tail> tails_;
  std::vector<TrainingRecords> processes_;
  bool python_ = false, torch_ = false;
};

}  // namespace memtune::attach
