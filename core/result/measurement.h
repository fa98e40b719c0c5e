// What one trial measured. Plain data; to_json writes the names that scripts read (see the README).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace memtune::result {

enum class Outcome {
  ok,
  device_oom,
  host_oom,
  disk_full,
  disk_error,  // the system reports that a read or write failed
  corrupt,     // bytes came back from the disk as others than were written
  timeout,
  crash,
  nan,
  mismatch,
  error,
  interrupted,
  killed,   // by somebody, not for lack of memory
  skipped,  // not run: the reason says why
};
std::string to_string(Outcome outcome);
Outcome parse_outcome(const std::string& text);

// Median with its spread. low and high are the 95 % bootstrap interval of the median; samples in order of time.
struct StepTime {
  double median = 0, low = 0, high = 0;  // ms
  std::vector<double> samples;           // ms
};
StepTime summarize(std::vector<double> samples_ms);
double spread(const StepTime& time);  // (max - min) / median of the samples
bool is_noisy(const StepTime& time);  // its spread is over 0.05

// A trial's share of one round, in which all trials take their turn.
struct Round {
  StepTime step_ms;
  std::string base;           // strategy that the others are compared with; "": none has worked yet
  double base_ms = 0;         // its median step in this round
  double load = 0;            // the machine's load average before the sweep began
  double other_cores = 0;     // cores that other processes kept busy while it ran, on average
  int64_t cores = 0;          // that there are
  int64_t gpu_processes = 0;  // others on the GPU before it began, where the driver tells
  std::vector<double> loss;   // as of a measurement
};

struct Peak {
  int64_t allocated = 0;  // bytes held by tensors, highest in the measured steps
  int64_t reserved = 0;   // bytes the allocator holds from the device; on CPU the same as allocated
  int64_t device = 0;     // bytes used on the whole device, by every process; of a command by its own, libraries
                          // included, where the driver tells; 0: not known
};

// A step's copies. hidden: share of copy time under kernels; exposed_ms: copy time under none, per step.
struct TransferFigures {
  int64_t out_bytes = 0, in_bytes = 0;                // per step
  int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // of these, what went on to the scratch file and came from there
  double hidden = 0, exposed_ms = 0;
  double out_gb_per_s = 0, in_gb_per_s = 0;            // 1e9 bytes, while copies ran
  double link_out_gb_per_s = 0, link_in_gb_per_s = 0;  // measured in the same process, idle, pinned
};

// A step's collectives, of a model that is sharded over ranks.
struct Communication {
  int64_t gathered_bytes = 0, reduced_bytes = 0;  // of whole units
  double exposed_ms = 0;      // that compute stood for them; of commands, that nothing computed beside
  double collectives_ms = 0;  // that they ran on the device, in traced steps
};

// Time of a step that engines stood in compute's way, by cause; taken in the traced steps.
struct Stalls {
  double room_ms = 0;  // host memory was full: the host waited until something had reached the disk
  double disk_ms = 0;  // the host waited for a read
  double copy_ms = 0;  // compute waited for a copy
};

struct Gradients {
  bool compared = false;  // false: there was nothing to compare with (the reference itself, or it failed)
  bool equal = false;     // bit for bit
  double max_abs_difference = 0;
  std::string worst;    // parameter with the largest difference
  std::string against;  // strategy of the reference
};

// Of a training command's first steps, beside those of the variant that others are compared with
// (core/result/losses.h).
struct Losses {
  bool compared = false;  // false: that variant itself, or there is nothing to compare with
  bool changed = false;   // by more than runs of that variant differ and its numbers round
  int64_t step = 0;       // the first that changed, else the one that came nearest to it
  double loss = 0;        // there
  double expected = 0;    // there, of the other
  double allowed = 0;     // there, difference that says nothing
  std::string against;    // name of the variant
};

// What one of several processes that train together measured.
struct RankShare {
  int64_t rank = 0;
  StepTime step_ms;
  Peak peak_bytes;
  double optimizer_ms = 0;
  std::vector<double> loss;
  double exposed_communication_ms = 0;
};

struct Measurement {
  std::string strategy;
  Outcome outcome = Outcome::ok;
  std::string reason;     // why not ok: one line, with bytes, phase and owners where they matter
  std::string equal_to;   // strategy or variant that it amounts to, where more is known than counts; see effect.h
  std::string no_effect;  // which part of it had no effect, and why: one line; "" where all had one
  StepTime step_ms;       // over all rounds
  std::vector<Round> rounds;
  bool noisy = false;
  Peak peak_bytes;
  int64_t floor_bytes = 0;      // allocated before a step: parameters, optimizer state, inputs
  int64_t host_bytes = 0;       // host memory that the engines took from the system
  int64_t host_peak_bytes = 0;  // of it, in use at most
  int64_t disk_peak_bytes = 0;  // of the scratch file, in use at most
  double samples_per_s = 0;
  double tokens_per_s = 0;  // 0 when the model has no sequence dimension
  TransferFigures transfer;
  Communication communication;
  Stalls stalls;
  int64_t recomputed_ops = 0;               // per step
  std::optional<int64_t> recomputed_bytes;  // that they made, per step; nothing: not counted
  double engine_ms = 0;      // of the host, that engines took of a step; ops that were run again are not in it
  double recompute_ms = 0;   // of the device, per step; taken in the traced steps
  std::vector<double> loss;  // [0]: the untouched model's; then one a measured step
  Gradients gradients;
  Losses losses;
  double optimizer_ms = 0;       // of a step, in its updates; 0: not taken
  std::vector<RankShare> ranks;  // where there are several; the figures above are then the slowest and the highest
  double profiler_overhead = 0;  // traced step / measured step - 1
  std::string dtype;             // least precise that a command was seen to compute in: "bfloat16"; "": not told
  bool emulated = false;         // the CPU played the device
  std::string device;            // "NVIDIA H200"
  std::string plan, trace;       // relative to the run directory
};

void to_json(nlohmann::json& json, const Measurement& measurement);
void from_json(const nlohmann::json& json, Measurement& measurement);

}  // namespace memtune::result
