// The linear layer behind a model's answer, and what is done to its outputs one by one: what a loss takes over that
// makes them itself, some tokens at a time.
#pragma once

#include <optional>
#include <vector>

#include "core/autograd/linear_cross_entropy.h"
#include "core/frontend/emitter.h"
#include "core/program/program.h"

namespace memtune::frontend {

struct OutputLayer {
  Value hidden, weight;
  std::optional<Value> bias;
  std::vector<autograd::LogitStep> steps;
};

// Of the program's value `logits`, which nothing else may use. Its ops are taken out of the program; a dict of the
// answer that holds it, too. UsageError that tells what stands in the way.
OutputLayer take_output_layer(program::Program& program, Value logits);

}  // namespace memtune::frontend
