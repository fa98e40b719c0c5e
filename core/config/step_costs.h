// What one training step costs, op by op, and when which memory is needed: recorded by a trial, so that the step under
// any other plan can be worked out without running it. Plain data; the file form is JSON.
//
//   runs       0      1      2    ...          forward, in order: what each reads, makes and has saved
//   moments    unpack s7, end s7, unpack s6 …  backward, in order: saved tensors as they are asked for and let go
//
// Recorded under a plan that moves nothing: every value kept on the device, or some made again. Bytes are the
// allocator's: allocated, and the most since the entry before. Where gradients are accumulated it is the last pass,
// which finds them there.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/config/plan.h"

namespace memtune::config {

inline constexpr double kBytesPerMs = 1e6;  // of a GB/s

struct StepCosts {
  // A memory that an op brought into being, or the content that an in-place op gave it.
  struct Value {
    int run = -1;       // index into `runs`, that made it; -1: it comes from outside of the step
    int output = 0;     // of the op, lists flattened; kPrivate: saved for the op's own backward
    int64_t bytes = 0;  // of its storage
    // Of a private value that autocast made: it is the cast of that value. kNoCast: it is none; kCastOfOther: of what
    // is no value (a parameter).
    int cast_of = kNoCast;
    bool operator==(const Value&) const = default;
  };
  static constexpr int kNoCast = -2, kCastOfOther = -1;

  // One run of an op in the forward.
  struct Run {
    int op = 0;                    // number in ProgramFacts::ops
    double ms = 0;                 // of the compute stream, until the next run begins
    double host_ms = 0;            // of the host, the same way
    int64_t before_bytes = 0;      // allocated when it begins
    int64_t own_bytes = 0;         // above that at most while the op itself runs, outputs included
    bool writes_outside = false;   // into what comes from outside of the step: cannot be run again
    std::vector<int> reads = {};   // values, each once
    std::vector<int> makes = {};   // values, in order; private ones too
    std::vector<int> writes = {};  // values whose memory it writes into; what it has then is among `makes`
    std::vector<int> saves = {};   // indices into `saved`, in order
    std::vector<int> units = {};   // of Sharding::units, that it reads
    bool operator==(const Run&) const = default;
  };

  // A tensor that autograd saved, of a value.
  struct Saved {
    int value = 0;
    int run = 0;  // that saved it
    bool operator==(const Saved&) const = default;
  };

  struct Moment {
    enum class Kind {
      unpack,  // backward has got `saved`, which it asked for; what was made again for it is done
      end,     // `saved` is let go; its value, if it was the last that needed it, is freed behind this moment
    };
    Kind kind = Kind::unpack;
    int saved = 0;
    double ms = 0;             // of the compute stream until backward asks again or ends; of kind unpack
    double host_ms = 0;        // of the host, the same way
    int64_t before_bytes = 0;  // allocated at it
    // Allocated at most from it, of an end from when it has let go, until backward asks again, lets something go or
    // ends.
    int64_t peak_bytes = 0;
    bool operator==(const Moment&) const = default;
  };

  // Of a model whose parameters are sharded over ranks: the course of gathers is that of gather::UnitSchedule.
  struct Unit {
    std::string name;
    int64_t bytes = 0;     // gathered
    double gather_ms = 0;  // from asking for it until it has come, beside the step
    bool operator==(const Unit&) const = default;
  };
  // A node of backward is about to read units; they are there now.
  struct UnitRead {
    int moment = 0;            // so many moments are before it
    int64_t before_bytes = 0;  // allocated, when they are there
    int64_t peak_bytes = 0;    // as a moment's, from then on
    double wait_ms = 0;        // of the host, for them; no part of a moment's times
    std::vector<int> units = {};
    bool operator==(const UnitRead&) const = default;
  };
  struct Sharding {
    int ranks = 1, rank = 0;         // whose costs these are
    std::string reshard = "always";  // a word of kReshard
    double forward_wait_ms = 0;      // of the host, for gathers; no part of a run's times
    std::vector<Unit> units;         // none: the model is on one rank
    std::vector<UnitRead> reads;     // in order
    bool operator==(const Sharding&) const = default;
  };

  int64_t grain_bytes = 1;                   // the allocator rounds up to multiples of it
  int64_t start_bytes = 0;                   // allocated before the step
  double step_ms = 0;                        // median of measured steps, optimizer included; nothing recorded in them
  double rerun_ms = 0;                       // of backward, between asking and getting: what was made again
  double before_ms = 0;                      // of backward, until it asks for the first
  int64_t before_peak_bytes = 0;             // from the end of forward until the first moment
  double after_ms = 0;                       // behind backward: the optimizer
  int64_t after_peak_bytes = 0;              // behind the last moment, until the step's end
  int passes = 1;                            // forward and backward so often a step
  double rerun_ratio = 1;                    // of a run's time when it is made again to its time in the forward
  double out_gb_per_s = 0, in_gb_per_s = 0;  // of the link, idle, 1e9 bytes; 0: not known
  double disk_write_gb_per_s = 0, disk_read_gb_per_s = 0;  // of the scratch folder, beside steps
  double copy_slowdown = 0;                                // ms that compute takes longer for a ms of copies beside it
  std::vector<Value> values;
  std::vector<Run> runs;
  std::vector<Saved> saved;
  std::vector<Moment> moments;
  std::vector<int64_t> gradient_bytes;  // of parameters: at each moment, and behind backward; empty: not recorded
  Plan plan;                            // that it was recorded under; moves nothing
  Sharding sharding;

  bool sharded() const { return !sharding.units.empty(); }
  bool operator==(const StepCosts&) const = default;
};

void to_json(nlohmann::json& json, const StepCosts& costs);
void from_json(const nlohmann::json& json, StepCosts& costs);  // UsageError naming the field; every index is in range

}  // namespace memtune::config
