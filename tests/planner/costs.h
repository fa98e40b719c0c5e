// Costs of the ops of a synthetic program, for tests that plan from costs.
#pragma once

#include <algorithm>
#include <vector>

#include "core/plan/facts/recorded_step_costs.h"
#include "tests/plan/program.h"

namespace memtune::test {

inline plan::RecordedStepCosts costs_of(const ProgramFacts& facts, const std::vector<double>& ms) {
  plan::RecordedStepCosts costs;
  for (int op = 0; op < static_cast<int>(facts.ops.size()); ++op) costs.runs.push_back({.op = op, .ms = ms[op]});
  return costs;
}

// Returns the time of a decoder's ops in ms: by flops for matmuls, by bytes for the others.
inline std::vector<double> decoder_ms(const ProgramFacts& facts) {
  std::vector<double> ms;
  for (const ProgramOpFacts& op : facts.ops) {
    const double mib = op.output_bytes.empty() ? 0 : static_cast<double>(op.output_bytes[0]) / kMiB;
    ms.push_back(op.flops > 0 ? op.flops / kMiB / 100 : mib / 1000);
  }
  return ms;
}

// A decoder with the activations of a batch.
inline ProgramFacts decoder_at(int64_t batch) {
  ProgramFacts facts = decoder(3);
  for (ProgramOpFacts& op : facts.ops) {
    for (int64_t& bytes : op.output_bytes) bytes = bytes / 8 * batch;
    op.flops *= static_cast<double>(batch) / 8;
  }
  return facts;
}

// Of what a step has beside its activations: 256 MiB of parameters in each block, and twice as much of moments.
inline void record_states(const ProgramFacts& facts, plan::RecordedStepCosts& costs) {
  costs.start_bytes = costs.runs.front().before_bytes;
  for (int i = 0; i < static_cast<int>(facts.blocks.size()); ++i)
    costs.states.units.push_back({facts.blocks[static_cast<size_t>(i)].region, i, 256 * kMiB, 0, 512 * kMiB});
}

// A recorded step that keeps everything. The first op that reads a saved value saves it. An op has 8 MiB of work space,
// and 4 GiB are unmodelled. Backward takes twice forward's time.
inline plan::RecordedStepCosts step_of(const ProgramFacts& facts, const std::vector<double>& ms) {
  using Kind = plan::RecordedStepCosts::Moment::Kind;
  constexpr int64_t kBeside = 4096 * kMiB, kWorkSpace = 8 * kMiB;
  plan::RecordedStepCosts costs = costs_of(facts, ms);
  const auto ops = static_cast<int>(facts.ops.size());
  std::vector<int> value_of(facts.ops.size(), -1), last_read(facts.ops.size(), -1);
  for (int op = 0; op < ops; ++op) {
    plan::RecordedStepCosts::Run& run = costs.runs[op];
    for (const int input : facts.ops[op].inputs) {
      const int owner = facts.owner[input];
      if (owner < 0 || value_of[owner] < 0) continue;
      run.reads.push_back(value_of[owner]);
      if (last_read[owner] < 0 && facts.ops[owner].output_saved[0]) {
        run.saves.push_back(static_cast<int>(costs.saved.size()));
        costs.saved.push_back({.value = value_of[owner], .run = op});
      }
      last_read[owner] = op;
    }
    if (facts.ops[op].output_bytes.empty() || facts.ops[op].output_bytes[0] == 0) continue;
    value_of[op] = static_cast<int>(costs.values.size());
    run.makes = {value_of[op]};
    costs.values.push_back({.run = op, .bytes = facts.ops[op].output_bytes[0]});
  }
  int64_t held = kBeside;
  for (int op = 0; op < ops; ++op) {
    plan::RecordedStepCosts::Run& run = costs.runs[op];
    const int64_t made = run.makes.empty() ? 0 : costs.values[run.makes[0]].bytes;
    run.before_bytes = held;
    run.own_bytes = made + kWorkSpace;
    held += made;
    for (int i = 0; i <= op; ++i)
      if (value_of[i] >= 0 && !facts.ops[i].output_saved[0] && std::max(i, last_read[i]) == op)
        held -= costs.values[value_of[i]].bytes;
  }
  costs.before_peak_bytes = held;
  for (int saved = static_cast<int>(costs.saved.size()) - 1; saved >= 0; --saved) {
    const double backward_ms = 2 * ms[costs.saved[saved].run];
    costs.moments.push_back({Kind::unpack, saved, backward_ms, 0, held, held + kWorkSpace});
    costs.moments.push_back({Kind::end, saved, 0, 0, held, held});
    held = costs.moments.back().peak_bytes -= costs.values[costs.saved[saved].value].bytes;
    costs.step_ms += backward_ms;
  }
  for (const double forward_ms : ms) costs.step_ms += forward_ms;
  costs.after_peak_bytes = held;
  costs.start_bytes = kBeside;
  return costs;
}

}  // namespace memtune::test
