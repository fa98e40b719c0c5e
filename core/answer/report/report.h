// The result of a sweep, ready to print. All formats and trainer configs are made from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/answer/findings/findings.h"
#include "core/answer/result/recommend.h"
#include "core/record/trace/run_provenance.h"

namespace memtune::report {

struct Report {
  std::string version;             // memtune's own
  std::string model;               // "model.pt", "decoder-tiny (profile)"
  std::string device;              // "NVIDIA H200", "CPU (2 cores)"
  trace::RunProvenance origin;     // of the sweep
  std::string settings;            // one line: inputs, loss, optimizer, dtype; may be empty
  std::string reference = "none";  // strategy that the others are compared with
  std::string own_config = {};     // the user's config that defined the training, "mine.yml"; "": none
  std::string own_strategy = {};   // what that config has now; "": none, or no strategy matches it
  bool emulated = false;           // the CPU emulated the device
  int64_t budget_bytes = 0;        // limit of device memory; 0: none
  result::RecommendationGoal goal = result::RecommendationGoal::throughput;
  int blocks = 0;                // of the model; 0: unknown
  std::string reshard = {};      // when gathered parameters are freed (a word of kReshard); "": one rank
  std::string shard_flags = {};  // the other sharding options, as command line flags
  bool shards_on_host = false;
  bool clips_gradients = false;              // to a total norm
  int64_t global_batch = 0;                  // samples per step with gradient accumulation; 0: a step is one batch
  double mtbf_s = 0;                         // mean time between failures of the job; 0: not given
  int64_t keep_last = 0;                     // saved states that the training keeps; 0: all
  std::vector<result::TrialResultRow> rows;  // in any order
  result::Recommendation recommendation;
  std::vector<findings::Finding> findings;           // in the recommended trial's trace, most severe first
  std::vector<result::PredictedFrontier> frontiers;  // predicted step time and peak of plans over all budgets
  std::vector<std::string> notes;                    // notes for the user, one line each
  // Set for a command for which memtune looked for a plan (ways.h):
  bool planned = false;
  std::string trainer = {};  // whose settings were tried; "": none
  std::string no_plan = {};  // why no row has a plan; "" otherwise
};

// The row to compare `row` with: the reference strategy at the same batch and sequence, if it worked. May be `row`
// itself; nullptr if there is none.
const result::TrialResultRow* reference_row(const Report& report, const result::TrialResultRow& row);

// Whether the rows are variants of a training command. Their losses are compared, not their gradients.
bool is_of_commands(const Report& report);

// Whether peaks are resident memory of the process, because no device allocator reports them.
bool has_resident_peaks(const Report& report);

// A copy without terminal control characters in its texts, because a run's folder may be untrusted. All text formats
// call it first.
Report printable(Report report);

}  // namespace memtune::report
