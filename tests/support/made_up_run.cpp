// memtune-made-up-run FOLDER: writes the folder of a finished sweep with synthetic figures and traces, to test reports
// without LibTorch. Names contain characters that must be escaped.
#include <filesystem>
#include <iostream>

#include "core/answer/run/run_directory.h"
#include "core/record/measurement/overlap.h"
#include "core/record/trace/file.h"
#include "tests/report/made_up_trace.h"

namespace {

using namespace memtune;

constexpr int64_t kGiB = int64_t{1} << 30;

int64_t bytes_of(double gib) { return static_cast<int64_t>(gib * static_cast<double>(kGiB)); }

result::TrialMeasurement worked(const std::string& strategy, double ms, double half, double gib) {
  result::TrialMeasurement m;
  m.strategy = strategy;
  m.step_ms = result::summarize({ms - half, ms, ms + half, ms - half / 2, ms + half / 2});
  m.peak_bytes.allocated = bytes_of(gib);
  m.peak_bytes.reserved = m.peak_bytes.allocated + (256 << 20);
  m.samples_per_s = 4000 / ms;
  m.tokens_per_s = 4096 * m.samples_per_s;
  m.loss = {10.5, 10.25};
  m.gradients = {strategy != "none", strategy != "none", 0, "", strategy == "none" ? "" : "none"};
  m.device = "NVIDIA H200";
  return m;
}

result::StepHostDeviceCopyStats late_copies() {
  result::StepHostDeviceCopyStats transfer = {24 * kGiB, 24 * kGiB, 8 * kGiB, 8 * kGiB, 0.24, 690};
  transfer.link_out_gb_per_s = transfer.link_in_gb_per_s = 55;
  return transfer;
}

void add_trial(const sweep::RunDirectory& run, sweep::SweepJsonSettingsFactsAndTrials& record,
               result::TrialMeasurement m, bool traced, std::optional<result::TrialPrediction> predicted = {}) {
  const std::string folder = run.new_folder({m.strategy, {}, {}, "", ""});
  std::filesystem::create_directories(run / folder);
  if (traced) {
    const trace::Trace trace = test::made_up_trace(m.strategy);
    m.transfer = result::measure_overlap(trace, 2);
    if (m.strategy == "offload:stream") m.transfer = late_copies();
    m.trace = folder + "/trace.mttrace";
    trace::write_trace(run / m.trace, trace);
  }
  run.write_measurement(folder, m);
  record.trials.push_back({m.strategy, {}, {}, std::to_string(record.trials.size()), folder, {}, {}, predicted});
}

result::TrialMeasurement failed(const std::string& strategy, result::TrialOutcome outcome, const std::string& reason) {
  result::TrialMeasurement m;
  m.strategy = strategy;
  m.outcome = outcome;
  m.reason = reason;
  return m;
}

void write_run(const std::filesystem::path& folder) {
  const sweep::RunDirectory run(folder);
  sweep::SweepJsonSettingsFactsAndTrials record;
  record.model = "model <b>&amp;.pt";
  record.machine = "NVIDIA H200";
  record.request.model.profile = "{}";
  record.facts.inputs = {"tokens:int64[4,4096]<32000"};
  record.facts.loss = "next_token";
  record.facts.program.kind = "scripted";
  record.facts.program.notes = {"dropout is \"fixed\" by the trace"};
  record.budget_bytes = 16 * kGiB;
  add_trial(run, record, worked("none", 260.6, 2.6, 36.22), true);
  add_trial(run, record, worked("checkpoint:cheap", 266.9, 4.1, 24.73), false);
  add_trial(run, record, worked("checkpoint:cheap+offload:stream,fraction=0.4", 267.1, 1.4, 21.21), true);
  add_trial(run, record, worked("mine-20", 271.6, 2.6, 20.21), false);
  add_trial(run, record, worked("mine-17", 281.2, 2.3, 17.21), false);
  add_trial(run, record, worked("checkpoint:every=2", 289.2, 3.9, 24.71), false);
  add_trial(run, record, worked("mixed", 291.4, 1.7, 14.18), true);
  add_trial(run, record, worked("checkpoint:op", 292.7, 2.7, 19.48), false);
  add_trial(run, record, worked("plan:13GiB", 305.2, 1.2, 12.91), false,
            result::TrialPrediction{301.6, bytes_of(12.98)});
  add_trial(run, record, worked("plan:20GiB", 269.1, 1.3, 19.83), false,
            result::TrialPrediction{270.2, bytes_of(19.9)});
  add_trial(run, record, worked("floor", 311.2, 1.1, 12.23), true);
  add_trial(run, record, worked("checkpoint:full,inputs=host", 323.5, 2.5, 12.19), false);
  add_trial(run, record, worked("checkpoint:full", 327.4, 23.2, 13.19), false);
  add_trial(run, record, worked("offload:stream", 948.9, 0.5, 12.13), true);
  add_trial(run, record,
            failed("offload:sync", result::TrialOutcome::device_oom,
                   "asked for 2 GiB in forward with 15.5 GiB in use; largest owners: layers.3.mlp 4 GiB"),
            false);
  add_trial(run, record, failed("plan:8GiB", result::TrialOutcome::device_oom, "asked for 1 GiB with 15.5 GiB in use"),
            false, result::TrialPrediction{402.5, 8 * kGiB});
  run.write_record(record);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: memtune-made-up-run FOLDER\n";
    return 2;
  }
  write_run(argv[1]);
}
