// Provides the parameters of a program if this process holds only a shard of them. It is called around everything that
// reads parameters, and at each phase of a step. A parameter stays one tensor with one storage, whose bytes are
// allocated and freed. To find out whether a tensor is a parameter, compare its storage. Never keep, offload or
// recompute the bytes of such a storage.
//
// Thread: the training thread.
#pragma once

#include "core/model/program/program.h"

namespace memtune::program {

class OpAndPhaseParameterResidencyHooks {
 public:
  virtual ~OpAndPhaseParameterResidencyHooks() = default;

  // before(): an op runs; its parameters stay resident until another op reads others. after(): the backward of these
  // outputs needs the parameters again.
  virtual void before(const Op& op, const Stack& inputs) = 0;
  virtual void after(const Op& op, const Stack& outputs) = 0;
  // An op is recomputed in backward.
  virtual void before_rerun(const Stack& inputs) = 0;

  virtual void begin_step() = 0;  // the optimizer may have changed parameters
  virtual void begin_forward() = 0;
  virtual void begin_backward() = 0;
  virtual void end_backward() = 0;  // on return, gradients are where the optimizer reads them
  virtual void drop() = 0;          // a forward has no backward, or threw
};

}  // namespace memtune::program
