// What the ops of a program made by hand cost, for the tests of what plans from costs.
#pragma once

#include <vector>

#include "core/config/step_costs.h"
#include "tests/plan/program.h"

namespace memtune::test {

inline config::StepCosts costs_of(const ProgramFacts& facts, const std::vector<double>& ms) {
  config::StepCosts costs;
  for (int op = 0; op < static_cast<int>(facts.ops.size()); ++op) costs.runs.push_back({.op = op, .ms = ms[op]});
  return costs;
}

// ms of a decoder's ops: matmuls by flops, the others by bytes.
inline std::vector<double> decoder_ms(const ProgramFacts& facts) {
  std::vector<double> ms;
  for (const OpFacts& op : facts.ops) {
    const double mib = op.output_bytes.empty() ? 0 : static_cast<double>(op.output_bytes[0]) / kMiB;
    ms.push_back(op.flops > 0 ? op.flops / kMiB / 100 : mib / 1000);
  }
  return ms;
}

}  // namespace memtune::test
