// Interface by which engines report a traced step: activations saved, copied, recomputed and used. Activations are
// identified by op and output, as in a plan. Thread: the training thread.
#pragma once

#include "core/record/trace/private_output.h"
#include "core/record/trace/event.h"

namespace memtune::trace {

struct ValueKey {
  int op = -1;     // number in the program; -1: created outside of it
  int output = 0;  // kPrivate: saved for the op's own backward
  int64_t bytes = 0;

  bool operator==(const ValueKey&) const = default;
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  virtual void saved(const ValueKey& value) = 0;
  // Backward unpacks it in `block` of the model; -1: outside of blocks.
  virtual void used(const ValueKey& value, int block) = 0;

  // Enclose the calls that enqueue copies of an activation, and those that recompute an op.
  virtual void begin_copies(const ValueKey& value) = 0;
  virtual void end_copies() = 0;
  virtual void begin_rerun(const ValueKey& value) = 0;
  virtual void end_rerun() = 0;
};

// RAII for the pairs above. `recorder` may be null.
class CopiesScope {
 public:
  CopiesScope(Recorder* recorder, const ValueKey& value) : recorder_(recorder) {
    if (recorder_) recorder_->begin_copies(value);
  }
  ~CopiesScope() {
    if (recorder_) recorder_->end_copies();
  }
  CopiesScope(const CopiesScope&) = delete;
  CopiesScope& operator=(const CopiesScope&) = delete;

 private:
  Recorder* recorder_;
};

class RerunScope {
 public:
  RerunScope(Recorder* recorder, const ValueKey& value) : recorder_(recorder) {
    if (recorder_) recorder_->begin_rerun(value);
  }
  ~RerunScope() {
    if (recorder_) recorder_->end_rerun();
  }
  RerunScope(const RerunScope&) = delete;
  RerunScope& operator=(const RerunScope&) = delete;

 private:
  Recorder* recorder_;
};

}  // namespace memtune::trace
