// The opened folders of sweeps, or traces recorded elsewhere. Bad files do not throw: everything readable is loaded,
// and a message reports the rest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/record/trace/trace_event.h"
#include "gui/model/timeline_model.h"

namespace memtune::gui {

// A trial's trace and the data that the timeline draws.
struct LoadedTrace {
  trace::Trace trace;
  TimelineModel timeline;
  std::string problem;  // "cannot be read from byte 4096 on; ..."; "" if it is complete
};

// One trial of an opened run. Its trace is loaded on first use.
class Trial {
 public:
  Trial(size_t run, std::string label, result::TrialResultRow row, std::filesystem::path trace_path,
        std::filesystem::path plan_path, int64_t budget_bytes, std::unique_ptr<LoadedTrace> loaded = nullptr);

  size_t run() const { return run_; }                         // index into Run::reports
  const std::string& label() const { return label_; }         // unique: "offload:stream", "none, batch 4", "B: none"
  const result::TrialResultRow& row() const { return row_; }  // a single trace only defines the strategy
  const std::filesystem::path& plan_path() const { return plan_path_; }  // empty: none
  bool has_trace() const { return !trace_path_.empty(); }
  const LoadedTrace& load() const;  // an empty trace with a problem if it cannot be read

 private:
  size_t run_;
  std::string label_;
  result::TrialResultRow row_;
  std::filesystem::path trace_path_, plan_path_;
  int64_t budget_bytes_;  // of the run, for traces that know none; 0: none
  mutable std::unique_ptr<LoadedTrace> loaded_;
};

struct Run {
  std::vector<std::filesystem::path> paths;
  std::vector<report::Report> reports;           // one per path; a single trace has one row and no recommendation
  std::vector<std::vector<std::string>> blocks;  // block names of each path's model; empty if unknown
  std::vector<Trial> trials;                     // of all paths; within a path the best first (result::ranked)

  // Throws UsageError if `path` is neither a run nor a trace, and adds nothing then.
  void add(const std::filesystem::path& path);

  // The recommended trial, or the first with a trace; 0 if there is neither.
  size_t first_trial() const;
  // The trial with that label, strategy or number (from 1). Throws UsageError with the known names.
  size_t find_trial(const std::string& name) const;
};

}  // namespace memtune::gui
