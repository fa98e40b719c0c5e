// The dtype of multiplications whose facts do not have it.
#pragma once

#include <string>

#include "core/plan/facts/program_facts.h"
#include "core/plan/request/trial_request.h"

namespace memtune::sweep {

inline std::string multiplication_dtype(const plan::ProgramFacts& program, const plan::TrainingSettings& training) {
  if (!training.autocast.empty()) return training.autocast;
  if (!training.dtype.empty()) return training.dtype;
  return program.parameter_bytes > 2 * program.parameters ? "float32" : "bfloat16";
}

}  // namespace memtune::sweep
