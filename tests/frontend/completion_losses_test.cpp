// Losses over completions compute their log probabilities without logits. Plain operators compute the same loss here.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/engine/autograd/hooks.h"
#include "core/engine/step/forward_op_allocation_and_flops_profiler.h"
#include "core/model/frontend/loss.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/program/blocks.h"
#include "core/model/program/facts.h"
#include "core/model/program/interpreter.h"
#include "tests/support/rounding.h"
namespace memtune::frontend::completion_losses_test {
namespace {

constexpr int64_t kRows = 4, kLength = 7, kWords = 13, kWidth = 8;

// Two numbered layers between an embedding, which padding leaves out, and a linear layer.
struct Model {
  program::Program program;
  at::Tensor table, inner, weight;

  explicit Model(double dropout = 0) {
    at::manual_seed(3);
    table = at::randn({kWords, kWidth}).requires_grad_();
    inner = at::randn({kWidth, kWidth}).div(2).requires_grad_();
    weight = at::randn({kWords, kWidth}).requires_grad_();
    ProgramEmitter emit(program);
    const Value ids = emit.input("input_ids"), mask = emit.input("attention_mask", /*optional=*/true);
    Value x = emit.op("aten::embedding", "", {emit.parameter("table", table), ids});
    x = emit.op("aten::mul", "Tensor", {x, emit.op("aten::unsqueeze", "", {mask, -1})});
    for (const char* path : {"layers.0", "layers.1"}) {
      const ProgramEmitter::InRegion layer(emit, path, "Layer");
      for (int i = 0; i < 3; ++i) x = emit.op("aten::linear", "", {x, emit.parameter("inner", inner)});
      x = emit.op("aten::tanh", "", {x});
      if (dropout > 0) x = emit.op("aten::dropout", "", {x, dropout, true});
    }
    emit.answer(emit.op("aten::linear", "", {x, emit.parameter("head", weight)}));
  }

  program::Program with(LossKind loss) const { return with_loss(program, loss, "input_ids"); }

  std::vector<at::Tensor> gradients_of(const at::Tensor& loss) const {
    autograd::backward(loss);
    std::vector<at::Tensor> all = {loss.detach()};
    for (const at::Tensor& tensor : {table, inner, weight}) {
      all.push_back(tensor.grad());
      tensor.mutable_grad().reset();
    }
    return all;
  }
  std::vector<at::Tensor> train(LossKind loss, std::vector<c10::IValue> inputs) const {
    const program::Program trained = with(loss);
    return gradients_of(program::Interpreter(trained).run(std::move(inputs)).toTensor());
  }

  // Of the next tokens, [rows, length - 1].
  at::Tensor log_probs(const at::Tensor& ids, const at::Tensor& padding) const {
    at::Tensor x = at::embedding(table, ids) * padding.unsqueeze(-1);
    for (int layer = 0; layer < 2; ++layer) x = at::linear(at::linear(at::linear(x, inner), inner), inner).tanh();
    const at::Tensor all = at::linear(x, weight).log_softmax(-1);
    return all.slice(1, 0, -1).gather(2, ids.slice(1, 1).unsqueeze(-1)).squeeze(-1);
  }
};

at::Tensor tokens(int64_t length) { return at::arange(kRows * length).mul(5).remainder(kWords).view({kRows, length}); }

// Zeros in the last columns of the first row.
at::Tensor mask(int64_t length, int64_t zeros) {
  at::Tensor ones = at::ones({kRows, length}, at::kLong);
  if (zeros > 0) ones[0].narrow(0, length - zeros, zeros).zero_();
  return ones;
}

at::Tensor completions(int64_t length) {
  at::Tensor mask = at::zeros({kRows, length}, at::kLong);
  mask.slice(1, 3).fill_(1);
  return mask;
}

void check_same(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) CHECK(tests::half_of_digits_equal(found[i], expected[i]));
}

struct KtoBatch {
  at::Tensor ids = tokens(kLength), padding = mask(kLength, 2), completion = completions(kLength) * padding;
  at::Tensor label = at::tensor({1, 0, 0, 1}).to(at::kBool);
  at::Tensor reference = at::full({kRows}, -9.0), reference_of_kl = at::full({kRows}, -40.0);
  at::Tensor kl_ids = tokens(kLength - 1).flip(0), kl_padding = mask(kLength - 1, 1);
  at::Tensor kl_completion = completions(kLength - 1) * kl_padding;

  std::vector<c10::IValue> inputs() const {
    return {ids, padding, completion, label, reference, reference_of_kl, kl_ids, kl_padding, kl_completion};
  }
  at::Tensor loss(const Model& model, double beta) const {
    const auto sums = [&](const at::Tensor& of, const at::Tensor& padding, const at::Tensor& completion) {
      return (model.log_probs(of, padding) * completion.slice(1, 1)).sum(1);
    };
    const at::Tensor kl = (sums(kl_ids, kl_padding, kl_completion) - reference_of_kl).mean().clamp_min(0).detach();
    CHECK(kl.item<double>() > 0);
    const at::Tensor difference = sums(ids, padding, completion) - reference - kl;
    return (1 - (at::where(label, difference, -difference) * beta).sigmoid()).mean();
  }
};

TEST_CASE("kto is the loss of its rows against an estimate of KL without gradients") {
  const Model model;
  const KtoBatch batch;
  const auto found = model.train(LossKind::kto, batch.inputs());
  check_same(found, model.gradients_of(batch.loss(model, 0.1)));
  CHECK_FALSE(tests::half_of_digits_equal(found[0], batch.loss(model, 0.11).detach()));
}

TEST_CASE("kto takes rows that are all desirable or all undesirable") {
  const Model model;
  for (const bool desirable : {true, false}) {
    KtoBatch batch;
    batch.label = at::full({kRows}, desirable, at::kBool);
    check_same(model.train(LossKind::kto, batch.inputs()), model.gradients_of(batch.loss(model, 0.1)));
  }
}

TEST_CASE("the copy of the model for kto's other rows saves nothing and is no block") {
  const Model model;
  const program::Program program = model.with(LossKind::kto);
  std::vector<std::string> blocks;
  for (const int region : program::find_blocks(program, "")) blocks.push_back(program.regions[region].path);
  CHECK(blocks == std::vector<std::string>{"layers.0", "layers.1"});
  plan::ProgramFacts facts = program::facts(program, program::find_blocks(program, ""));
  step::ForwardOpAllocationAndFlopsProfiler survey(program, facts, c10::kCPU);
  autograd::SavedTensorHooksScope hooks(&survey);
  program::Interpreter(program).run(KtoBatch().inputs(), &survey);
  int copied = 0, saved = 0;
  for (const plan::ProgramOpFacts& op : facts.ops) {
    const bool saves = op.private_bytes > 0 || std::ranges::count(op.output_saved, true) > 0;
    if (op.region.starts_with("KL.")) CHECK_FALSE(saves);
    copied += op.region == "KL.layers.1";
    saved += op.region == "layers.1" && saves;
  }
  CHECK((copied == 4 && saved > 0));
}

struct GrpoBatch {
  at::Tensor ids = tokens(kLength), padding = mask(kLength, 2), completion = padding.slice(1, 3);
  at::Tensor advantages = at::tensor({1.0F, -1.0F, 0.5F, -0.5F}), items = at::tensor(11);
  at::Tensor old = at::arange(kRows * 4).remainder(5).to(at::kFloat).sub(5).view({kRows, 4});

  std::vector<c10::IValue> inputs(bool with_old) const {
    return {ids, padding, completion, advantages, items, with_old ? c10::IValue(old) : c10::IValue()};
  }
  at::Tensor loss(const Model& model, double epsilon, bool with_old) const {
    const at::Tensor now = model.log_probs(ids, padding).slice(1, 2);
    const at::Tensor ratio = (now - (with_old ? old : now.detach())).exp(), by = advantages.unsqueeze(1);
    const at::Tensor least = at::min(ratio * by, ratio.clamp(1 - epsilon, 1 + epsilon) * by);
    return (-least * completion).sum() / items;
  }
};

TEST_CASE("grpo clips ratios to older log probabilities or takes its own as such") {
  const Model model;
  const GrpoBatch batch;
  for (const bool with_old : {true, false})
    check_same(model.train(LossKind::grpo, batch.inputs(with_old)),
               model.gradients_of(batch.loss(model, 0.2, with_old)));
  const at::Tensor found = model.train(LossKind::grpo, batch.inputs(true))[0];
  CHECK_FALSE(tests::half_of_digits_equal(found, batch.loss(model, 0.21, true).detach()));
}

TEST_CASE("kto trains without dropout, and grpo with it") {
  const KtoBatch batch;
  const Model model, dropped(0.5);
  check_same(dropped.train(LossKind::kto, batch.inputs()), model.train(LossKind::kto, batch.inputs()));
  const GrpoBatch update;
  CHECK_FALSE(tests::half_of_digits_equal(dropped.train(LossKind::grpo, update.inputs(true))[1],
                                          model.train(LossKind::grpo, update.inputs(true))[1]));
}

TEST_CASE("log probabilities of completions cost the products of the output layer") {
  const Model model;
  const program::Program program = model.with(LossKind::grpo);
  plan::ProgramFacts facts = program::facts(program, {});
  step::ForwardOpAllocationAndFlopsProfiler survey(program, facts, c10::kCPU);
  program::Interpreter(program).run(GrpoBatch().inputs(false), &survey);
  const auto op = std::ranges::find(facts.ops, "memtune::chunked_log_probs", &plan::ProgramOpFacts::name);
  REQUIRE(op != facts.ops.end());
  CHECK(op->flops == 2.0 * kRows * (kLength - 1) * kWidth * kWords);
  CHECK(op->dtype == "float32");
}

}  // namespace
}  // namespace memtune::frontend::completion_losses_test
