// The answer of a process that inspected a model, as a sweep stores it.
#pragma once

#include <string>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/record/trace/run_provenance.h"

namespace memtune::sweep {

struct ModelInspectionResult {
  plan::ProgramFacts program;
  std::vector<std::string> inputs;  // as specs, with guessed shapes filled in
  std::string loss;
  trace::RunProvenance origin;  // versions and machine of the process that inspected the model
};

}  // namespace memtune::sweep
