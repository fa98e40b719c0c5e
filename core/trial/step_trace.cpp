#include "core/trial/step_trace.h"

namespace memtune::trial {

void StepTrace::before(const program::Op& op, const torch::jit::Stack& inputs) {
  int block = facts_.ops[op.id].block;
  if (block != block_) {
    leave_block();
    block_ = block;
    block_start_ = now_ns();
  }
  op_start_ = now_ns();
  if (next_) next_->before(op, inputs);
}

void StepTrace::after(const program::Op& op, const torch::jit::Stack& outputs) {
  if (next_) next_->after(op, outputs);
  add(trace::Kind::op, "host ops", op.name, op_start_);
  trace_.memory.push_back({now_ns(), device_.memory().allocated});
}

void StepTrace::leave_block() {
  if (block_ >= 0) add(trace::Kind::region, "host blocks", facts_.blocks[block_].region, block_start_);
}

void StepTrace::end_forward() {
  leave_block();
  block_ = -1;
}

void StepTrace::phase(const std::string& name, int64_t start_ns) {
  add(trace::Kind::region, name == "step" ? "host steps" : "host phases", name, start_ns);
  trace_.memory.push_back({now_ns(), device_.memory().allocated});
}

void StepTrace::add(trace::Kind kind, const std::string& track, const std::string& name, int64_t start_ns) {
  trace::Event event;
  event.kind = kind;
  event.track = trace_.track(track, false);
  event.name = trace_.name(name);
  event.start_ns = start_ns;
  event.end_ns = now_ns();
  trace_.events.push_back(event);
}

}  // namespace memtune::trial
