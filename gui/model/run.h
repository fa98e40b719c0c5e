// What a person opened: folders of sweeps, or traces recorded elsewhere. Nothing here throws for a bad file: what can
// be read is there, and a message says the rest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/report/report.h"
#include "core/trace/event.h"
#include "gui/model/timeline_model.h"

namespace memtune::gui {

// A trial's trace with what the timeline draws from it.
struct LoadedTrace {
  trace::Trace trace;
  TimelineModel timeline;
  std::string problem;  // "cannot be read from byte 4096 on; ..."; "" when all is well
};

// One trial of an opened run. The trace is read when it is first asked for.
class Trial {
 public:
  Trial(size_t run, std::string label, result::Row row, std::filesystem::path trace_path,
        std::filesystem::path plan_path, std::unique_ptr<LoadedTrace> loaded = nullptr);

  size_t run() const { return run_; }                  // index into Run::reports
  const std::string& label() const { return label_; }  // unique: "offload:stream", "none, batch 4", "B: none"
  const result::Row& row() const { return row_; }      // of a single trace only the strategy is known
  const std::filesystem::path& plan_path() const { return plan_path_; }  // empty: none
  bool has_trace() const { return !trace_path_.empty(); }
  const LoadedTrace& load() const;  // an empty trace with a problem when there is none

 private:
  size_t run_;
  std::string label_;
  result::Row row_;
  std::filesystem::path trace_path_, plan_path_;
  mutable std::unique_ptr<LoadedTrace> loaded_;
};

struct Run {
  std::vector<std::filesystem::path> paths;
  std::vector<report::Report> reports;           // one a path; of a single trace it has one row and no recommendation
  std::vector<std::vector<std::string>> blocks;  // of each path's model, by name; empty where it is not known
  std::vector<Trial> trials;                     // of all paths, in each the best first (result::ranked)

  // UsageError when `path` is neither a run nor a trace; nothing is added then.
  void add(const std::filesystem::path& path);

  // The recommended trial, or the first that has a trace; 0 when there is none.
  size_t first_trial() const;
  // The trial of that label, strategy or number (from 1); UsageError with those that there are.
  size_t find_trial(const std::string& name) const;
};

}  // namespace memtune::gui
