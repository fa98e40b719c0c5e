// What engines tell about a traced step: which value they save, move, make again and hand to backward. Values are known
// by the op and output that made them, as in a plan. Thread: the one that trains.
#pragma once

#include "core/base/private_output.h"
#include "core/trace/event.h"

namespace memtune::trace {

struct ValueKey {
  int op = -1;     // number in the program; -1: from outside of it
  int output = 0;  // kPrivate: what the op saved for itself
  int64_t bytes = 0;

  bool operator==(const ValueKey&) const = default;
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  virtual void saved(const ValueKey& value) = 0;
  // Backward, in `block` of the model (-1: outside), asks for it.
  virtual void used(const ValueKey& value, int block) = 0;

  // Around the calls that enqueue a value's copies, and those that run an op again.
  virtual void begin_copies(const ValueKey& value) = 0;
  virtual void end_copies() = 0;
  virtual void begin_rerun(const ValueKey& value) = 0;
  virtual void end_rerun() = 0;
};

// The scopes of the above; `recorder` may be null.
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
