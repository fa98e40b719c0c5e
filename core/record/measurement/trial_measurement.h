// Results of one trial. Plain data; to_json writes the names that scripts read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/record/measurement/memory_growth.h"
#include "core/record/measurement/out_of_memory_breakdown.h"
#include "core/record/measurement/step_memory_breakdown.h"
#include "core/record/measurement/training_phase_time_shares.h"

namespace memtune::result {

enum class TrialOutcome {
  ok,
  device_oom,
  host_oom,
  disk_full,
  disk_error,  // the system reported a failed read or write
  corrupt,     // data read from disk differs from the data written
  timeout,
  crash,
  nan,
  mismatch,
  error,
  interrupted,
  killed,   // by a user or another process, not for lack of memory
  skipped,  // not run; see reason
};
std::string to_string(TrialOutcome outcome);
TrialOutcome parse_outcome(const std::string& text);

// A median with its spread: low and high are its 95 % bootstrap interval. Samples are in order of time.
struct StepTimeStats {
  double median = 0, low = 0, high = 0;  // ms
  std::vector<double> samples;           // ms
};
StepTimeStats summarize(std::vector<double> samples_ms);
double spread(const StepTimeStats& time);  // (max - min) / median of the samples
bool is_noisy(const StepTimeStats& time);  // spread() above 0.05

// A trial's part of one round. In a round all trials run in turn.
struct TrialRoundTimesAndMachineLoad {
  StepTimeStats step_ms;
  std::string base;           // strategy that others are compared with; "": none worked so far
  double base_ms = 0;         // median step of the base in this round
  double load = 0;            // load average of the machine before the sweep
  double other_cores = 0;     // average number of cores used by other processes during the trial
  int64_t cores = 0;          // of the machine
  int64_t gpu_processes = 0;  // other processes on the GPU before the trial, if the driver reports them
  std::vector<double> loss;   // as Measurement::loss
};

struct PeakMemory {
  int64_t allocated = 0;  // bytes held by tensors, peak of the measured steps
  int64_t reserved = 0;   // bytes that the allocator holds of the device; on CPU equal to allocated
  int64_t device = 0;     // on the device: reserved, and this process's context and libraries; for a command: used by
                          // its own processes; 0: not known, or on CPU
};

// Copies of a step. hidden: share of copy time that overlaps kernels; exposed_ms: copy time without kernels, per step.
struct StepHostDeviceCopyStats {
  int64_t out_bytes = 0, in_bytes = 0;                // per step
  int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // the part that was written to or read from the scratch file
  double hidden = 0, exposed_ms = 0;
  double out_gb_per_s = 0, in_gb_per_s = 0;            // during copies, 1e9 bytes
  double link_out_gb_per_s = 0, link_in_gb_per_s = 0;  // PCIe bandwidth: idle, pinned, measured in the same process
};

// Collectives of a step, for a model sharded over ranks.
struct CommunicationStats {
  int64_t gathered_bytes = 0, reduced_bytes = 0;  // of whole units
  double exposed_ms = 0;                          // compute waited for them; for commands: no kernel ran meanwhile
  double collectives_ms = 0;                      // device time in traced steps
};

// Time per step in which an engine blocked host or compute, by cause. Measured in the traced steps.
struct OffloadStallTimes {
  double room_ms = 0;  // host memory was full: the host waited for a write to disk
  double disk_ms = 0;  // the host waited for a read
  double copy_ms = 0;  // compute waited for a copy
};

struct GradientComparison {
  bool compared = false;  // false: no reference to compare with (the reference itself, or it failed)
  bool equal = false;     // bit for bit
  double max_abs_difference = 0;
  std::string worst;       // parameter with the largest difference
  std::string against;     // strategy of the reference
  bool undecided = false;  // they differ, by how much is not known, and the trial ended there
};

// Losses of a training command's first steps, compared with those of the base variant
// (core/answer/result/loss_comparison.h).
struct LossComparison {
  bool compared = false;         // false: the base variant itself, or nothing to compare with
  bool changed = false;          // by more than the noise of the base's runs and rounding
  int64_t step = 0;              // the first changed step, else the one closest to the limit
  double loss = 0;               // at that step
  double expected = 0;           // at that step, of the base
  double allowed = 0;            // at that step, difference within noise
  std::string against;           // name of the base variant
  int64_t without_gradient = 0;  // how many more tensors have none than in the base
};

// Steps of a command that differ from its others, as by an evaluation. Each sample of its step time is then the mean of
// a whole period.
struct StepPeriodicity {
  int64_t steps = 0;     // of a period; 0: all are alike, or none was seen
  double median_ms = 0;  // of single steps
  double longest_ms = 0;
};

// Results of one of several ranks.
struct RankMeasurement {
  int64_t rank = 0;
  StepTimeStats step_ms;
  PeakMemory peak_bytes;
  double optimizer_ms = 0;
  std::vector<double> loss;
  double exposed_communication_ms = 0;
};

struct TrialMeasurement {
  std::string strategy;
  TrialOutcome outcome = TrialOutcome::ok;
  std::string reason;     // why not ok: one line, with bytes, phase and owners if they matter
  std::string equal_to;   // strategy or variant that it equals, if not known from counters; see effect.h
  std::string no_effect;  // which part had no effect, and why: one line; "" if all had one
  StepTimeStats step_ms;  // over all rounds
  StepPeriodicity period;
  std::optional<TrainingPhaseTimeShares> time_shares;  // of a command's measured steps; nothing: not known
  std::vector<TrialRoundTimesAndMachineLoad> rounds;
  bool noisy = false;
  PeakMemory peak_bytes;
  int64_t cap_bytes = 0;    // size of the device that the trial was limited to; 0: it had the whole device
  std::string allocator;    // settings of PyTorch's allocator that the trial needs; "": none
  bool fragmented = false;  // out of memory although enough was free: it was in pieces
  std::optional<OutOfMemoryBreakdown> oom;    // of a command that ended so; nothing: not known
  std::optional<StepMemoryBreakdown> memory;  // of a command whose steps were traced; nothing: not known
  int64_t allocator_retries = 0;              // of the measured steps: see device::AllocatorStats
  int64_t allocator_segments = 0;             // of a command, at its end: what PyTorch reserved is in so many
  std::optional<MemoryGrowth> growth;         // of a command, from step to step; nothing: too few steps
  int64_t floor_bytes = 0;                    // allocated before a step: parameters, optimizer state, inputs
  int64_t host_bytes = 0;                     // taken from the system by the engines
  int64_t host_peak_bytes = 0;                // peak of the part in use
  int64_t disk_peak_bytes = 0;                // peak of the scratch file's part in use
  double samples_per_s = 0;
  double tokens_per_s = 0;  // 0 if the model has no sequence dimension
  StepHostDeviceCopyStats transfer;
  CommunicationStats communication;
  OffloadStallTimes stalls;
  int64_t recomputed_ops = 0;                          // per step
  std::optional<int64_t> recomputed_bytes;             // size of their results, per step; nothing: not counted
  double engine_ms = 0;                                // host time of the engines per step, without recomputed ops
  double recompute_ms = 0;                             // device time per step, measured in traced steps
  std::vector<double> loss;                            // [0]: of the untouched model; then one per measured step
  std::vector<std::vector<double>> loss_per_backward;  // of a command, by step; `loss` has their sums
  std::vector<double> loss_unscaled;  // of a command, by step: their mean without the script's factors; empty: none
  int64_t trained_tensors = 0, tensors_without_gradient = 0;  // of a command; 0: each had a gradient
  GradientComparison gradients;
  LossComparison losses;
  double optimizer_ms = 0;             // of the updates of one step; 0: not measured
  std::vector<RankMeasurement> ranks;  // if several; the members above are then the slowest and highest
  double profiler_overhead = 0;        // traced step / measured step - 1
  std::string dtype;                   // least precise dtype that a command computed in, "bfloat16"; "": not known
  bool emulated = false;               // the CPU emulated the device
  std::string device;                  // "NVIDIA H200"
  std::string plan, trace;             // relative to the run directory
};

// What the device has to hold, the memory that budgets limit: PeakMemory::device, or allocated where that is not known.
int64_t required_bytes(const TrialMeasurement& measurement);
// "23.41 GiB on the device", or "23.41 GiB at the peak" of what is allocated.
std::string required_text(const TrialMeasurement& measurement);

void to_json(nlohmann::json& json, const TrialMeasurement& measurement);
void from_json(const nlohmann::json& json, TrialMeasurement& measurement);

}  // namespace memtune::result
