// Programs of a few ops, and plans as text, for the tests of the rules.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/rules/strategy.h"
#include "core/plan/strategy/plan.h"

namespace memtune::test {

using plan::OneOpActivationPlacements;
using plan::Plan;
using plan::ProgramFacts;
using plan::ProgramOpFacts;
using plan::TensorPlacement;

class Builder {
 public:
  int input() { return value(-1); }

  // Adds an op with new memory and returns its output.
  int op(const std::string& name, std::vector<int> inputs) {
    return emit(name, std::move(inputs), static_cast<int>(facts.ops.size()));
  }

  // Adds an op whose output shares its first input's memory.
  int alias(const std::string& name, std::vector<int> inputs) {
    const int owner = facts.owner[inputs[0]];
    const int output = emit(name, std::move(inputs), owner);
    const bool in_place = name.ends_with('_');
    last().in_place = in_place;
    last().view = !in_place;
    return output;
  }

  ProgramOpFacts& last() { return facts.ops.back(); }

  // Sets what one measured forward gives for the last op, and returns its output.
  int measured(int64_t bytes, bool saved, double flops = 0, int64_t private_bytes = 0) {
    last().output_bytes = {bytes};
    last().output_saved = {saved};
    last().private_bytes = private_bytes;
    last().flops = flops;
    return last().outputs[0];
  }

  ProgramFacts facts;
  int block = -1;
  bool after = false;

 private:
  int value(int owner) {
    facts.owner.push_back(owner);
    return static_cast<int>(facts.owner.size()) - 1;
  }

  int emit(const std::string& name, std::vector<int> inputs, int owner) {
    ProgramOpFacts op;
    op.name = name;
    op.region = block >= 0 ? "layers." + std::to_string(block) : "";
    op.block = block;
    op.after_blocks = after;
    op.op_class = plan::traits_of(name).op_class;
    op.inputs = std::move(inputs);
    op.outputs = {value(owner)};
    facts.ops.push_back(op);
    return facts.ops.back().outputs[0];
  }
};

inline int add_block(Builder& builder, int hidden) {
  const int l = builder.op("aten::linear", {hidden});
  const int v = builder.alias("aten::view", {l});
  const int s = builder.alias("aten::silu_", {v});
  const int m = builder.op("aten::linear", {s});
  const int a = builder.op("aten::scaled_dot_product_attention", {m});
  return builder.op("aten::add", {a, hidden});
}

// Returns the program that strategy_test.cpp draws.
inline ProgramFacts three_blocks() {
  Builder builder;
  int hidden = builder.op("aten::embedding", {builder.input()});
  for (builder.block = 0; builder.block < 3; ++builder.block) {
    builder.facts.blocks.push_back({"layers." + std::to_string(builder.block)});
    hidden = add_block(builder, hidden);
  }
  builder.block = -1;
  builder.after = true;
  builder.op("aten::linear", {builder.op("aten::rms_norm", {hidden})});
  return builder.facts;
}

constexpr int64_t kMiB = 1 << 20;
constexpr int kDecoderOps = 18;  // per block

// A measured decoder block. The comments give each op's number and the MiB that autograd saves.
inline int add_decoder_block(Builder& builder, int hidden) {
  const auto op = [&](const char* name, std::vector<int> inputs, int64_t mib, bool saved, double flops = 0) {
    builder.op(name, std::move(inputs));
    return builder.measured(mib * kMiB, saved, flops * kMiB);
  };
  const int norm = op("aten::rms_norm", {hidden}, 64, true);                                                // 0: 64
  const int q = op("aten::linear", {norm}, 64, false, 100);                                                 // 1
  const int k = op("aten::linear", {norm}, 16, false, 25);                                                  // 2
  const int v = op("aten::linear", {norm}, 16, false, 25);                                                  // 3
  const int turned_q = op("aten::mul", {q}, 64, true);                                                      // 4: 64
  const int turned_k = op("aten::mul", {k}, 16, false);                                                     // 5
  const int all_k = op("aten::repeat_interleave", {turned_k}, 64, true);                                    // 6: 64
  const int all_v = op("aten::repeat_interleave", {v}, 64, true);                                           // 7: 64
  const int attention = op("aten::scaled_dot_product_attention", {turned_q, all_k, all_v}, 64, true, 150);  // 8: 64
  const int o = op("aten::linear", {attention}, 64, false, 100);                                            // 9
  const int middle = op("aten::add", {hidden, o}, 64, true);                                                // 10: 64
  const int norm2 = op("aten::rms_norm", {middle}, 64, true);                                               // 11: 64
  const int gate = op("aten::linear", {norm2}, 256, true, 380);                                             // 12: 256
  const int up = op("aten::linear", {norm2}, 256, true, 380);                                               // 13: 256
  const int silu = op("aten::silu", {gate}, 256, true);                                                     // 14: 256
  const int product = op("aten::mul", {silu, up}, 256, true);                                               // 15: 256
  const int down = op("aten::linear", {product}, 64, false, 400);                                           // 16
  return op("aten::add", {middle, down}, 64, true);                                                         // 17: 64
}

// Op 0 is the embedding. Then come the blocks with kDecoderOps each, then norm and linear.
inline ProgramFacts decoder(int blocks) {
  Builder builder;
  builder.op("aten::embedding", {builder.input()});
  int hidden = builder.measured(64 * kMiB, true);
  for (builder.block = 0; builder.block < blocks; ++builder.block) {
    builder.facts.blocks.push_back({"layers." + std::to_string(builder.block)});
    hidden = add_decoder_block(builder, hidden);
  }
  builder.block = -1;
  builder.after = true;
  const int norm = builder.op("aten::rms_norm", {hidden});
  builder.measured(64 * kMiB, true);
  builder.op("aten::linear", {norm});
  builder.measured(512 * kMiB, true, 700 * kMiB);
  return builder.facts;
}

// Prints a plan as "1-5 recompute/recompute": ops, place of each output, place of their private values.
inline std::string placed(const Plan& plan) {
  std::string text, places;
  int first = -1, last = -1;
  const auto flush = [&] {
    if (first < 0) return;
    text += text.empty() ? "" : ", ";
    text += std::to_string(first) + (last > first ? "-" + std::to_string(last) : "") + " " + places;
  };
  for (const OneOpActivationPlacements& placement : plan.placements) {
    std::string next;
    for (TensorPlacement place : placement.outputs) next += to_string(place) + "/";
    next += to_string(placement.saved);
    if (next != places || placement.op != last + 1) {
      flush();
      first = placement.op;
    }
    last = placement.op;
    places = next;
  }
  flush();
  return text;
}

inline Plan plan_of(const std::string& strategy, const ProgramFacts& facts) {
  return plan::make_plan(plan::Strategy::parse(strategy), facts);
}

inline std::string placed(const std::string& strategy, const ProgramFacts& facts = three_blocks()) {
  return placed(plan_of(strategy, facts));
}

}  // namespace memtune::test
