// Only the emitter writes programs, so an error in it is an error of every front end.
#include "core/model/frontend/program_emitter.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/model/frontend/loss.h"
#include "core/model/program/interpreter.h"
namespace memtune::frontend::emitter_test {
namespace {

using program::InterpreterInstructionKind;
using program::Program;

c10::IValue run(const Program& model, std::vector<c10::IValue> inputs) {
  const Program program = with_loss(model, LossKind::none, "");
  return program::Interpreter(program).run(std::move(inputs));
}

TEST_CASE("omitted arguments keep their defaults") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  emit.answer(emit.op("aten::softplus", "", {x, 2}));  // beta 2, threshold 20
  const at::Tensor input = at::tensor({0.5, 40.0});
  CHECK(at::equal(run(program, {input}).toTensor(), at::softplus(input, 2)));
}

TEST_CASE("an operator that LibTorch lacks is an error") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  CHECK_THROWS_AS(emit.op("aten::no_such_op", "", {x}), c10::Error);
}

TEST_CASE("an omitted argument without a default is an error") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  CHECK_THROWS_WITH_AS(emit.op("aten::mm", "", {x}), "aten::mm: argument 'mat2' is missing", Error);
}

TEST_CASE("an op has the innermost region and the source line that was set last") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  Value y;
  {
    const ProgramEmitter::InRegion outer(emit, "layers.0", "Block");
    emit.at("model.py:7");
    {
      const ProgramEmitter::InRegion inner(emit, "layers.0.up", "Linear");
      y = emit.op("aten::relu", "", {x});
    }
    y = emit.op("aten::neg", "", {y});
  }
  emit.at("");
  emit.answer(emit.op("aten::abs", "", {y}));
  REQUIRE(program.body.ops.size() == 3);
  CHECK(program.path(program.body.ops[0]) == "layers.0.up");
  CHECK(program.path(program.body.ops[1]) == "layers.0");
  CHECK(program.path(program.body.ops[2]) == "");
  CHECK(program.regions[2].parent == 1);
  CHECK(program.body.ops[1].source == "model.py:7");
  CHECK(program.body.ops[2].source == "");
}

TEST_CASE("an op's schema gives its writes and aliases and class") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  emit.op("aten::add_", "Tensor", {x, x});
  emit.op("aten::view", "", {x, emit.list(c10::ListType::ofInts(), {emit.constant(-1)})});
  emit.op("aten::dropout", "", {x, 0.5, true});
  const program::Op &add = program.body.ops[0], &view = program.body.ops[2], &dropout = program.body.ops[3];
  CHECK(add.writes[0]);
  CHECK(add.may_alias_outputs[0]);
  CHECK_FALSE(add.may_alias_outputs[1]);
  CHECK((view.returns_alias && view.may_alias_outputs[0] && !view.writes[0]));
  CHECK((view.op_class == plan::OpClass::view));
  CHECK((dropout.random && !dropout.returns_alias));
}

TEST_CASE("a branch runs one body and a loop carries its results to the next iteration") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  const Value positive = emit.op("aten::is_nonzero", "", {emit.op("aten::gt", "Scalar", {x, 0})});
  const Values sign = emit.branch(
      positive,
      [&] {
        return Values{emit.op("aten::mul", "Scalar", {x, 10.0})};
      },
      [&] { return Values{emit.op("aten::neg", "", {x})}; });
  const Values sum = emit.loop(emit.constant(3), emit.constant(true), sign, [&](const Values& taken) {
    return Values{emit.constant(true), emit.op("aten::add", "Scalar", {taken[1], taken[0]})};
  });
  emit.answer(sum[0]);
  CHECK(run(program, {at::tensor(2.0)}).toTensor().item<double>() == 20 + 0 + 1 + 2);
  CHECK(run(program, {at::tensor(-2.0)}).toTensor().item<double>() == 2 + 0 + 1 + 2);
}

TEST_CASE("a repeated parameter is tied to its first name") {
  Program program;
  ProgramEmitter emit(program);
  const at::Tensor weight = at::ones({2}).requires_grad_();
  emit.parameter("emb.weight", weight);
  emit.parameter("output.weight", weight);
  REQUIRE(program.state.parameters.size() == 1);
  CHECK(program.state.parameters[0].first == "emb.weight");
  CHECK(program.state.ties[0] == std::pair<std::string, std::string>("output.weight", "emb.weight"));
}

TEST_CASE("the loss takes the first element of a tuple and frees the others when they are made") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  const Value first = emit.op("aten::relu", "", {x}), second = emit.op("aten::neg", "", {x});
  program::OutputTree answer;
  for (const Value value : {first, second}) answer.elements.push_back({value.slot, c10::TensorType::get(), {}});
  emit.answer(answer);
  const Program trained = with_loss(program, LossKind::mse, "target");
  CHECK(program::Interpreter(trained).run({at::ones({3}), at::zeros({3})}).toTensor().item<double>() == 1);
  CHECK(trained.body.ops[1].dead == std::vector<program::Slot>{second.slot});
  CHECK(run(program, {at::ones({3})}).toTupleRef().elements().size() == 2);
}

TEST_CASE("the loss takes the logits of a dict or its loss entry") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  const auto type = c10::DictType::create(c10::StringType::get(), c10::TensorType::get());
  const Value dict = emit.dict(type, {emit.constant(std::string("logits")), x, emit.constant(std::string("loss")),
                                      emit.op("aten::sum", "", {x})});
  emit.answer(program::OutputTree{dict.slot, type, {}});
  const Program compared = with_loss(program, LossKind::mse, "target");
  CHECK(program::Interpreter(compared).run({at::ones({4}), at::ones({4})}).toTensor().item<double>() == 0);
  const Program returned = with_loss(program, LossKind::returned, "");
  CHECK(program::Interpreter(returned).run({at::ones({4})}).toTensor().item<double>() == 4);
}

}  // namespace
}  // namespace memtune::frontend::emitter_test
