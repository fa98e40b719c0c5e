// Records the host's side of traced steps: ops and phases as they were issued, and what happens to activations. A first
// step, which is not timed, records the owners of memory. The profiler adds what the device did; finish() converts all
// to the device's clock.
#pragma once

#include <map>

#include "core/base/device/device.h"
#include "core/measure/profiler/device_activity_profiler.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/memory_curve_recorder.h"
#include "core/model/program/interpreter.h"
#include "core/plan/facts/program_facts.h"
#include "core/record/trace/activation_event_recorder.h"
#include "core/record/trace/host_timeline_segments.h"

namespace memtune::trial {

class HostOpAndActivationTraceRecorder final : public program::OpObserver,
                                               public trace::ActivationEventRecorder,
                                               public StepPhaseObserver {
 public:
  // All arguments must outlive it. The destructor removes it as the executor's recorder.
  HostOpAndActivationTraceRecorder(const plan::ProgramFacts& facts, device::Device& device,
                                   profiler::DeviceActivityProfiler& profiler, step::ActivationPlanExecutor& executor,
                                   const DeviceMemoryByOwnerSampler& owners);
  ~HostOpAndActivationTraceRecorder() override;
  HostOpAndActivationTraceRecorder(const HostOpAndActivationTraceRecorder&) = delete;
  HostOpAndActivationTraceRecorder& operator=(const HostOpAndActivationTraceRecorder&) = delete;

  void before(const program::Op& op, const program::Stack& inputs) override;
  void after(const program::Op& op, const program::Stack& outputs) override;
  void saved(const trace::ActivationOpOutputKey& value) override;
  void used(const trace::ActivationOpOutputKey& value, int block) override;
  void begin_copies(const trace::ActivationOpOutputKey& value) override;
  void end_copies() override;
  void begin_rerun(const trace::ActivationOpOutputKey& value) override;
  void end_rerun() override;

  // Backward has no call: it begins with the first saved tensor that is requested. The forward of a further micro-batch
  // begins with its first op.
  void begin_forward() override;
  void begin_optimizer() override;
  void end_step() override;

  void begin_timing() override;

  // Ends recording and puts everything into `trace`.
  void finish(trace::Trace& trace);

 private:
  struct Moment {
    trace::EventKind kind;
    uint32_t part;
    trace::ValueId value;
  };

  struct Phase {
    trace::Pass pass;
    uint32_t first_part, last_part;
  };

  void begin_pass();
  int64_t now_ns() const { return profiler_.now_ns(); }
  uint32_t now_part() const { return static_cast<uint32_t>(parts_.size()); }
  void begin_phase(trace::Pass pass);
  void end_phase();
  void begin_part(const trace::TraceRegionKey& region);
  void sample();
  trace::TraceEvent& add(trace::EventKind kind, trace::TrackRole role, const std::string& name, int64_t start_ns);
  trace::ValueId id_of(const trace::ActivationOpOutputKey& value);
  void put_values_in_order(trace::Trace& trace);
  trace::TracedActivationPlacement describe(const trace::ActivationOpOutputKey& value) const;
  std::string block_name(int block, bool after_blocks) const;
  std::string name_of(const trace::TraceRegionKey& region) const;
  void add_disk_events();
  void add_phases(const trace::HostSegmentDeviceWindows& clock, trace::Trace& trace) const;
  void add_moments(const trace::HostSegmentDeviceWindows& clock, trace::Trace& trace) const;

  const plan::ProgramFacts& facts_;
  profiler::DeviceActivityProfiler& profiler_;
  step::ActivationPlanExecutor& executor_;
  const DeviceMemoryByOwnerSampler& owners_;
  MemoryCurveRecorder memory_;
  bool timed_ = false;  // false in the step that memory_ samples
  trace::Trace host_;   // tracks, names, values and the host's events
  std::vector<trace::HostIssueSegment> parts_;
  std::vector<uint32_t> steps_;  // by timed step: the last part before it
  std::vector<Moment> moments_;
  std::vector<Phase> phases_;
  std::map<std::pair<int, int>, trace::ValueId> values_;  // op, output
  int64_t step_start_ = 0, op_start_ = 0, rerun_start_ = 0;
  trace::ValueId rerun_value_;
  bool blocks_behind_ = false;      // backward has reached them
  trace::TraceRegionKey backward_;  // the part that backward is in
};

}  // namespace memtune::trial
