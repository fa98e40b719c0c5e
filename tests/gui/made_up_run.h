// A folder of a finished sweep with a few synthetic trials. Their figures and traces can be checked by hand.
#pragma once

#include <nlohmann/json.hpp>

#include "core/answer/run/run_directory.h"
#include "core/base/file.h"
#include "core/plan/strategy/plan.h"
#include "core/record/trace/file.h"
#include "tests/findings/made_up.h"

namespace memtune::test {

using findings::MadeUp;

// Two steps of 100 + `late` ms. Forward of two blocks takes 0 to 40 ms, backward of the second block 50 ms to the end.
// Before the last 10 ms of a step, compute waits `late` ms for a copy of the second of two activations. The memory peak
// is `peak_gib` at 45 ms.
inline trace::Trace two_blocks(const std::string& strategy, double late, int64_t peak_gib) {
  using trace::EventKind, trace::Pass, trace::TraceRegionKey;
  MadeUp made;
  made.trace.strategy = strategy;
  made.trace.device = "NVIDIA H200";
  made.value("layers.0", 0, late > 0 ? "recompute" : "keep", 256 * MadeUp::kMiB);
  const trace::ValueId moved = made.value("layers.1", 1, late > 0 ? "host" : "keep", 512 * MadeUp::kMiB);
  made.trace.values.push_back({"head logits", "", "keep", "", 64 * MadeUp::kMiB});
  for (int step = 0; step < 2; ++step) {
    const double at = step * (100 + late);
    made.step(at, at + 100 + late);
    made.region(at, at + 20, TraceRegionKey::of_block(0), "layers.0");
    made.region(at + 20, at + 40, TraceRegionKey::of_block(1), "layers.1");
    made.region(at + 50, at + 100 + late, TraceRegionKey::of_block(1, Pass::backward), "layers.1 backward");
    made.kernel(at, at + 90);
    made.kernel(at + 90 + late, at + 100 + late);
    if (late > 0) {
      made.add(EventKind::copy_out, at + 30, at + 40, "", 512 * MadeUp::kMiB, moved);
      made.add(EventKind::copy_in, at + 80, at + 90 + late, "", 512 * MadeUp::kMiB, moved);
    }
    for (const auto& [ms, gib] : {std::pair<double, int64_t>(0, 2), {45, peak_gib}, {95, 3}})
      made.trace.memory.push_back({static_cast<int64_t>((at + ms) * MadeUp::kMs), gib << 30});
  }
  return made.trace;
}

class MadeUpRun {
 public:
  explicit MadeUpRun(const std::filesystem::path& folder) : run_(folder) {
    record_.model = "model.pt";
    record_.machine = "NVIDIA H200";
    record_.facts.program.kind = "scripted";
    for (int block = 0; block < 4; ++block) record_.facts.program.blocks.push_back({"layers." + std::to_string(block)});
    record_.request.model.profile = "{}";
    std::filesystem::create_directories(folder);
  }

  void add(const std::string& strategy, double ms, int64_t peak_gib, const trace::Trace* trace) {
    result::TrialMeasurement m;
    m.strategy = strategy;
    m.step_ms = result::summarize({ms - 1, ms, ms + 1});
    m.peak_bytes.allocated = peak_gib << 30;
    m.samples_per_s = 1000 / ms;
    m.gradients.compared = m.gradients.equal = strategy != "none";
    m.gradients.against = strategy != "none" ? "none" : "";
    m.transfer.out_bytes = strategy.starts_with("offload") ? 1 << 30 : 0;
    add(m, trace);
  }
  void add(result::TrialMeasurement m, const trace::Trace* trace, std::optional<int64_t> batch = {},
           std::optional<int64_t> sequence = {}) {
    sweep::SweepTrialEntry spec{m.strategy, batch, sequence, std::to_string(record_.trials.size()), ""};
    spec.folder = run_.new_folder(spec);
    std::filesystem::create_directories(run_ / spec.folder);
    plan::Plan plan;
    plan.strategy = m.strategy;
    plan.placements = {
        {4, "layers.3.mlp/aten::linear", {plan::TensorPlacement::host}, plan::TensorPlacement::recompute}};
    m.plan = spec.folder + "/plan.json";
    write_file(run_ / m.plan, nlohmann::json(plan).dump());
    if (trace) {
      m.trace = spec.folder + "/trace.mttrace";
      trace::write_trace(run_ / m.trace, *trace);
    }
    run_.write_measurement(spec.folder, m);
    record_.trials.push_back(spec);
    run_.write_record(record_);
  }
  // Sets the prediction of the last added trial.
  void predict(const result::TrialPrediction& predicted) {
    record_.trials.back().predicted = predicted;
    run_.write_record(record_);
  }
  void foretell(const result::PredictedFrontier& frontier) {
    record_.frontiers.push_back(frontier);
    run_.write_record(record_);
  }

 private:
  sweep::RunDirectory run_;
  sweep::SweepJsonSettingsFactsAndTrials record_;
};

// Trials in ranking order: none (100 ms, 8 GiB), offload:stream (110 ms, 4 GiB, its copy 10 ms late), checkpoint:full
// (130 ms, 5 GiB, no trace), and one that ran out of memory.
inline void write_run(const std::filesystem::path& folder) {
  MadeUpRun run(folder);
  const trace::Trace none = two_blocks("none", 0, 8), late = two_blocks("offload:stream", 10, 4);
  run.add("offload:stream", 110, 4, &late);
  run.add("none", 100, 8, &none);
  run.add("checkpoint:full", 130, 5, nullptr);
  result::TrialMeasurement failed;
  failed.strategy = "offload:sync";
  failed.outcome = result::TrialOutcome::device_oom;
  failed.reason = "asked for 2 GiB";
  run.add(failed, nullptr);
}

}  // namespace memtune::test
