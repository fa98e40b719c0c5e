// Where a program's parameters are, for a model of which this process holds a part: told of all that reads them, and of
// where a step is. A parameter stays one tensor of one storage, whose bytes come and go: whoever asks whether a tensor
// is a parameter asks for its storage, and never keeps, moves or makes again what is in it.
//
// Thread: the one that trains.
#pragma once

#include "core/program/program.h"

namespace memtune::program {

class ParameterSource {
 public:
  virtual ~ParameterSource() = default;

  // An op runs: what it reads is there from here on until another reads others; its outputs, for whose backward it has
  // to be there again.
  virtual void before(const Op& op, const Stack& inputs) = 0;
  virtual void after(const Op& op, const Stack& outputs) = 0;
  // An op is run again, in backward.
  virtual void before_rerun(const Stack& inputs) = 0;

  virtual void begin_step() = 0;  // an optimizer may have changed them since the last one
  virtual void begin_forward() = 0;
  virtual void begin_backward() = 0;
  virtual void end_backward() = 0;  // gradients are where the optimizer takes them when it returns
  virtual void drop() = 0;          // a forward has no backward, or threw
};

}  // namespace memtune::program
