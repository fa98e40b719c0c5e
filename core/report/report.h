// What a sweep found, ready to be printed: the table, JSON, CSV and trainer configs are all made from this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/result/recommend.h"
#include "core/trace/origin.h"

namespace memtune::report {

struct Report {
  std::string version;             // memtune's
  std::string model;               // "model.pt", "decoder-tiny (profile)"
  std::string device;              // "NVIDIA H200", "CPU (2 cores)"
  trace::Origin origin;            // of the sweep
  std::string settings;            // one line: inputs, loss, optimizer, dtype; may be empty
  std::string reference = "none";  // strategy whose rows the others are compared with
  bool emulated = false;           // the CPU played the device
  int64_t budget_bytes = 0;        // of the device's memory; 0: none
  result::Goal goal = result::Goal::throughput;
  int blocks = 0;                // of the model; 0: not known
  std::string reshard = {};      // when gathered parameters are freed (a word of kReshard), of several ranks; "": one
  std::string shard_flags = {};  // what else was said of their shards, as flags
  bool shards_on_host = false;
  int64_t global_batch = 0;       // samples a step, of batches in several passes; 0: a step is one batch
  double mtbf_s = 0;              // mean time between failures of the job; 0: not given
  int64_t keep_last = 0;          // saved states that the training is to keep; 0: all
  std::vector<result::Row> rows;  // in any order
  result::Recommendation recommendation;
  std::vector<findings::Finding> findings;  // in the recommended trial's trace, heaviest first; empty without a trace
  std::vector<result::Frontier> frontiers;  // what plans of any budget would take, on paper
  std::vector<std::string> notes;           // what the person should know, a line each
  // Of a command that memtune's own engines were asked about (ways.h):
  bool planned = false;
  std::string trainer = {};  // whose settings were tried; "": none's
  std::string no_plan = {};  // why no row is of a plan, where there is none
};

// The row that `row` is compared with: the reference strategy at the same batch and sequence, if it worked. May be
// `row` itself; nullptr when there is none.
const result::Row* reference_row(const Report& report, const result::Row& row);

// Whether its rows are variants of a training command, whose losses are compared, not trials of memtune's own.
bool is_of_commands(const Report& report);

// Whether its peaks are of all that a process holds: there is no allocator of a device to ask.
bool has_resident_peaks(const Report& report);

// The same with nothing in its texts that a terminal would act on: a run's folder may come from anybody. Every printer
// of text begins with it.
Report printable(Report report);

}  // namespace memtune::report
