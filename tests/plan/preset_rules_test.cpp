// The tensors that engines of other trainers place, by the rules in their source.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/rules/op_class.h"
#include "tests/plan/program.h"

namespace memtune::preset_rules_test {

using namespace memtune;
using namespace memtune::plan;
using namespace memtune::test;
using plan::Strategy;

namespace {

Plan planned(const std::string& strategy, const ProgramFacts& facts) {
  return make_plan(Strategy::parse(strategy), facts);
}

const OneOpActivationPlacements* placement(const Plan& plan, int op) {
  for (const OneOpActivationPlacements& placement : plan.placements)
    if (placement.op == op) return &placement;
  return nullptr;
}

TensorPlacement output(const Plan& plan, int op) {
  const OneOpActivationPlacements* of = placement(plan, op);
  return of ? of->outputs.at(0) : TensorPlacement::keep;
}

// Returns the numbers of the ops whose saved tensors are offloaded.
std::vector<int> senders(const Plan& plan) {
  std::vector<int> ops;
  for (const OneOpActivationPlacements& placement : plan.placements)
    if (placement.saves == TensorPlacement::host) ops.push_back(placement.op);
  return ops;
}

std::vector<int> on_host(const Plan& plan) {
  std::vector<int> ops;
  for (const OneOpActivationPlacements& placement : plan.placements)
    if (std::ranges::count(placement.outputs, TensorPlacement::host) > 0) ops.push_back(placement.op);
  return ops;
}

// An embedding, a rotation that all blocks read, blocks of seven linear layers and a product, a norm, the output layer
// and the loss.
struct Decoder {
  explicit Decoder(int blocks) {
    Builder builder;
    int hidden = builder.op("aten::embedding", {builder.input()});
    const int rotation = builder.op("aten::cos", {builder.input()});
    for (builder.block = 0; builder.block < blocks; ++builder.block) {
      builder.facts.blocks.push_back({"layers." + std::to_string(builder.block)});
      first_of_block.push_back(static_cast<int>(builder.facts.ops.size()));
      const int q = builder.op("aten::linear", {hidden});
      const int k = builder.op("aten::linear", {hidden});
      const int v = builder.op("aten::linear", {hidden});
      const int scores = builder.op("aten::bmm", {builder.op("aten::mul", {q, rotation}), k});
      const int o = builder.op("aten::linear", {builder.op("aten::bmm", {scores, v})});
      const int gate = builder.op("aten::linear", {o});
      const int up = builder.op("aten::linear", {o});
      hidden = builder.op("aten::linear", {builder.op("aten::mul", {gate, up})});
    }
    builder.block = -1;
    builder.after = true;
    norm = static_cast<int>(builder.facts.ops.size());
    hidden = builder.op("aten::rms_norm", {hidden});
    builder.last().region = "norm";
    hidden = builder.op("aten::linear", {hidden});
    builder.last().region = "output";
    builder.op("aten::cross_entropy_loss", {hidden});
    builder.last().region = "loss";
    facts = builder.facts;
  }
  int output_layer() const { return norm + 1; }
  int loss() const { return norm + 2; }

  ProgramFacts facts;
  std::vector<int> first_of_block;
  int norm = 0;
};

constexpr int kOpsOfBlock = 11;

}  // namespace

TEST_CASE("torchtune's hooks cover the model except its output layer") {
  const Decoder decoder(2);
  const Plan plan = planned("offload:torchtune", decoder.facts);
  const std::vector<int> ops = senders(plan);
  CHECK(ops.size() == 2 + 2 * kOpsOfBlock + 1);
  CHECK(std::ranges::count(ops, decoder.norm) == 1);
  CHECK(std::ranges::count(ops, decoder.output_layer()) == 0);
  CHECK(std::ranges::count(ops, decoder.loss()) == 0);
  CHECK(on_host(plan).empty());
  CHECK(plan.offloads_activations());
  CHECK(plan.transfer.min_bytes == 1024);
  CHECK(plan.transfer.compatibility.stash_saves == 5);
  CHECK(plan.transfer.compatibility.parameter_views);
}

TEST_CASE("TRL's hooks cover the loss too") {
  const Decoder decoder(2);
  const std::vector<int> ops = senders(planned("offload:trl", decoder.facts));
  CHECK(std::ranges::count(ops, decoder.loss()) == 1);
  CHECK(std::ranges::count(ops, decoder.output_layer()) == 0);
}

TEST_CASE("ms-swift's hooks cover all blocks except the last") {
  const Decoder decoder(3);
  const Plan plan = planned("offload:swift", decoder.facts);
  const std::vector<int> ops = senders(plan);
  CHECK(ops.size() == 2 * kOpsOfBlock);
  CHECK(ops.front() == decoder.first_of_block[0]);
  CHECK(ops.back() == decoder.first_of_block[2] - 1);
  CHECK(plan.transfer.schedule == plan::ActivationOffloadCopyGranularity::block);
  CHECK_THROWS_AS(planned("offload:swift", Decoder(0).facts), UsageError);
}

TEST_CASE("a hook sees the inputs of checkpointed blocks and tensors saved outside of them") {
  const Decoder decoder(3);
  const Plan plan = planned("checkpoint:full+offload:torchtune", decoder.facts);
  CHECK(senders(plan) == std::vector{0, 1, decoder.norm});
  // The embedding and the outputs of all blocks but the last, which the norm reads. Not the rotation, which all blocks
  // read.
  CHECK(on_host(plan) == std::vector{0, decoder.first_of_block[1] - 1, decoder.first_of_block[2] - 1});
}

TEST_CASE("transformers offloads the inputs of every n-th block and checkpoints that block") {
  const Decoder decoder(4);
  const Plan plan = planned("checkpoint:hf-offload,every=2", decoder.facts);
  CHECK(on_host(plan) == std::vector{0, decoder.first_of_block[2] - 1});
  CHECK(output(plan, decoder.first_of_block[0]) == TensorPlacement::recompute);
  CHECK(output(plan, decoder.first_of_block[1]) == TensorPlacement::keep);
  CHECK_FALSE(plan.transfer.side_stream);
  CHECK(plan.transfer.compatibility.host_waits);
  CHECK_THROWS_WITH_AS(planned("checkpoint:hf-offload,every=5", decoder.facts),
                       "checkpoint:hf-offload: every=5 must be at most the number of blocks, 4", UsageError);
}

TEST_CASE("DeepSpeed offloads the inputs of all blocks but the last and recomputes that one too") {
  const Decoder decoder(3);
  const Plan plan = planned("checkpoint:deepspeed-cpu", decoder.facts);
  CHECK(on_host(plan) == std::vector{0, decoder.first_of_block[1] - 1});
  CHECK(output(plan, decoder.first_of_block[2]) == TensorPlacement::recompute);
  CHECK(plan.transfer.min_bytes == 1);
  CHECK(plan.transfer.side_stream);
  CHECK(plan.transfer.compatibility.stash_saves == 2);
  CHECK_FALSE(plan.transfer.compatibility.host_waits);
}

TEST_CASE("torchtitan recomputes every other linear layer of a block and keeps all other products") {
  const Decoder decoder(2);
  const Plan plan = planned("checkpoint:titan-selective", decoder.facts);
  std::vector<int> again;
  for (int op = decoder.first_of_block[1]; op < decoder.first_of_block[1] + kOpsOfBlock; ++op)
    if (output(plan, op) == TensorPlacement::recompute) again.push_back(op - decoder.first_of_block[1]);
  CHECK(again == std::vector{1, 3, 6, 8, 9});  // k, the rotation, o, up, the product of gate and up
  CHECK(plan.transfer.compatibility.whole_blocks);
}

TEST_CASE("Megatron's uniform checkpoints cover several blocks and its block checkpoints the first ones") {
  const Decoder decoder(4);
  const Plan uniform = planned("checkpoint:megatron-uniform,layers=2", decoder.facts);
  CHECK_FALSE(uniform.nested);
  CHECK(output(uniform, decoder.first_of_block[1] - 1) == TensorPlacement::recompute);
  CHECK(output(uniform, decoder.first_of_block[2] - 1) == TensorPlacement::keep);
  const Plan block = planned("checkpoint:megatron-block,layers=3", decoder.facts);
  CHECK(output(block, decoder.first_of_block[2]) == TensorPlacement::recompute);
  CHECK(output(block, decoder.first_of_block[3]) == TensorPlacement::keep);
}

}  // namespace memtune::preset_rules_test
