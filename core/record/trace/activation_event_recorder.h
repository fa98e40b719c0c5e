// Interface by which engines report a traced step: activations saved, copied, recomputed and used. Activations are
// identified by op and output, as in a plan. Thread: the training thread.
#pragma once

#include "core/record/trace/private_save.h"
#include "core/record/trace/trace_event.h"

namespace memtune::trace {

struct ActivationOpOutputKey {
  int op = -1;     // number in the program; -1: created outside of it
  int output = 0;  // kPrivateSave: saved for the op's own backward
  int64_t bytes = 0;

  bool operator==(const ActivationOpOutputKey&) const = default;
};

class ActivationEventRecorder {
 public:
  virtual ~ActivationEventRecorder() = default;

  virtual void saved(const ActivationOpOutputKey& value) = 0;
  // Backward unpacks it in `block` of the model; -1: outside of blocks.
  virtual void used(const ActivationOpOutputKey& value, int block) = 0;

  // Enclose the calls that enqueue copies of an activation, and those that recompute an op.
  virtual void begin_copies(const ActivationOpOutputKey& value) = 0;
  virtual void end_copies() = 0;
  virtual void begin_rerun(const ActivationOpOutputKey& value) = 0;
  virtual void end_rerun() = 0;
};

// RAII for the pairs above. `recorder` may be null.
class ActivationCopyTagScope {
 public:
  ActivationCopyTagScope(ActivationEventRecorder* recorder, const ActivationOpOutputKey& value) : recorder_(recorder) {
    if (recorder_) recorder_->begin_copies(value);
  }
  ~ActivationCopyTagScope() {
    if (recorder_) recorder_->end_copies();
  }
  ActivationCopyTagScope(const ActivationCopyTagScope&) = delete;
  ActivationCopyTagScope& operator=(const ActivationCopyTagScope&) = delete;

 private:
  ActivationEventRecorder* recorder_;
};

class RecomputeRecordScope {
 public:
  RecomputeRecordScope(ActivationEventRecorder* recorder, const ActivationOpOutputKey& value) : recorder_(recorder) {
    if (recorder_) recorder_->begin_rerun(value);
  }
  ~RecomputeRecordScope() {
    if (recorder_) recorder_->end_rerun();
  }
  RecomputeRecordScope(const RecomputeRecordScope&) = delete;
  RecomputeRecordScope& operator=(const RecomputeRecordScope&) = delete;

 private:
  ActivationEventRecorder* recorder_;
};

}  // namespace memtune::trace
