// Host-side events of a traced step: ops, blocks and phases as the host issued them, and memory after each op.
#pragma once

#include "core/config/program_facts.h"
#include "core/device/device.h"
#include "core/profiler/profiler.h"
#include "core/program/interpreter.h"

namespace memtune::trial {

class StepTrace final : public program::OpObserver {
 public:
  // `next` sees every op too; may be null.
  StepTrace(const config::ProgramFacts& facts, device::Device& device, profiler::Profiler& profiler,
            trace::Trace& trace, program::OpObserver* next)
      : facts_(facts), device_(device), profiler_(profiler), trace_(trace), next_(next) {}

  void before(const program::Op& op, const torch::jit::Stack& inputs) override;
  void after(const program::Op& op, const torch::jit::Stack& outputs) override;

  // A phase ("forward", "backward", "optimizer", "step") from `start_ns` until now.
  void phase(const std::string& name, int64_t start_ns);
  int64_t now_ns() const { return profiler_.now_ns(); }
  void end_forward();

 private:
  void add(trace::Kind kind, const std::string& track, const std::string& name, int64_t start_ns);
  void leave_block();

  const config::ProgramFacts& facts_;
  device::Device& device_;
  profiler::Profiler& profiler_;
  trace::Trace& trace_;
  program::OpObserver* next_;
  int64_t op_start_ = 0;
  int block_ = -1;
  int64_t block_start_ = 0;
};

}  // namespace memtune::trial
