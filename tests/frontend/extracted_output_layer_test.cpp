// A loss that computes the logits itself removes ops from the model. It must remove the right ones, and only if no
// other op reads their results.
#include "core/model/frontend/extracted_output_layer.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/engine/autograd/hooks.h"
#include "core/model/frontend/loss.h"
#include "core/model/program/interpreter.h"
#include "tests/support/rounding.h"
namespace memtune::frontend::output_layer_test {
namespace {

using Kind = LossImplementation::Kind;
using program::Program;

// An embedding and a linear layer. `finish` adds the ops after the linear layer.
struct Model {
  Program program;
  at::Tensor table, weight;

  template <typename Finish>
  explicit Model(const Finish& finish) {
    at::manual_seed(1);
    table = at::randn({13, 8}).requires_grad_();
    weight = at::randn({13, 8}).requires_grad_();
    ProgramEmitter emit(program);
    const Value ids = emit.input("input_ids");
    const Value x = emit.op("aten::embedding", "", {emit.parameter("table", table), ids});
    const Value y = emit.op("aten::linear", "", {x, emit.parameter("head.weight", weight)});
    emit.answer(finish(emit, y));
  }
  // Returns loss and gradients.
  std::vector<at::Tensor> train(const LossImplementation& how, LossKind loss = LossKind::causal_lm) const {
    const at::Tensor ids = at::arange(15).remainder(13).view({3, 5});
    const Program trained = with_loss(program, loss, "input_ids", "", how);
    const at::Tensor result = program::Interpreter(trained).run({ids}).toTensor();
    autograd::backward(result);
    std::vector<at::Tensor> all = {result.detach(), table.grad(), weight.grad()};
    table.mutable_grad().reset();
    weight.mutable_grad().reset();
    return all;
  }
};

Value itself(ProgramEmitter&, Value y) { return y; }

TEST_CASE("dpo refuses other implementations and unknown changes of logits") {
  const Model straight(itself);
  CHECK_THROWS_WITH_AS(straight.train({Kind::fused, 0}, LossKind::dpo),
                       "--loss-impl chunked and fused are for --loss next_token and causal_lm, not dpo", UsageError);
  const Model squashed([](ProgramEmitter& emit, Value y) { return emit.op("aten::tanh", "", {y}); });
  CHECK_THROWS_WITH_AS(
      squashed.train({}, LossKind::dpo),
      "--loss dpo: the model's logits are neither scaled nor capped as TRL does; it needs a linear layer at the "
      "model's end; measure the trainer by its command: memtune sweep -- python train.py",
      UsageError);
}

void check_same(const Model& model, LossKind loss) {
  const auto plain = model.train({}, loss);
  for (const LossImplementation how : {LossImplementation{Kind::chunked, 2}, LossImplementation{Kind::fused, 0}}) {
    const auto ours = model.train(how, loss);
    for (size_t i = 0; i < plain.size(); ++i) CHECK(tests::half_of_digits_equal(ours[i], plain[i]));
  }
}

TEST_CASE("chunked and fused losses equal the plain loss with any ops between them and the layer") {
  const Model straight(itself);
  check_same(straight, LossKind::causal_lm);
  check_same(straight, LossKind::next_token);
  check_same(Model([](ProgramEmitter& emit, Value y) {
               y = emit.op("aten::tanh", "", {emit.op("aten::div", "Scalar", {y, 3.0})});
               return emit.op("aten::mul", "Scalar", {y, 3.0});
             }),
             LossKind::causal_lm);
}

TEST_CASE("a fused loss replaces the ops of the output layer by one op") {
  const Model model([](ProgramEmitter& emit, Value y) { return emit.op("aten::div", "Scalar", {y, 3.0}); });
  const Program program = with_loss(model.program, LossKind::causal_lm, "input_ids", "", {Kind::fused, 0});
  std::vector<std::string> names;
  for (const program::Op& op : program.body.ops) names.push_back(op.name);
  CHECK(names == std::vector<std::string>{"aten::embedding", "aten::flatten", "aten::pad", "aten::slice",
                                          "aten::contiguous", "aten::view", "memtune::linear_cross_entropy"});
  CHECK((program.body.ops.back().op_class == plan::OpClass::matmul));
}

void check_refused(const Model& model, const char* reason, LossKind loss = LossKind::causal_lm) {
  CHECK_THROWS_WITH_AS(model.train({Kind::chunked, 2}, loss), doctest::Contains(reason), UsageError);
  if (loss == LossKind::causal_lm) CHECK_NOTHROW(model.train({}, loss));
}

TEST_CASE("the error says why a loss cannot take over the output layer") {
  check_refused(Model([](ProgramEmitter& emit, Value y) {
                  return emit.op("aten::softmax", "int", {y, -1});
                }),
                "aten::softmax lies between");
  check_refused(Model([](ProgramEmitter& emit, Value y) {
                  return emit.op("aten::mul", "Tensor", {y, y});
                }),
                "aten::mul lies between");
  check_refused(Model([](ProgramEmitter& emit, Value y) {
                  return emit.unpack_list(emit.op("aten::chunk", "", {y, 1, 0}), 1)[0];
                }),
                "they come out of a prim::ListUnpack");
  check_refused(Model(itself), "are for --loss next_token and causal_lm, not cross_entropy", LossKind::cross_entropy);
}

TEST_CASE("logits that another op reads cannot be taken over by a loss") {
  const Model model([](ProgramEmitter& emit, Value y) {
    emit.op("aten::mean", "", {y});
    return y;
  });
  check_refused(model, "what aten::linear makes has other uses");
}

}  // namespace
}  // namespace memtune::frontend::output_layer_test
