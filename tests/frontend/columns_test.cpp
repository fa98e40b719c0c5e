// Both columns must read the same parameters, and each its own inputs. tests/models/check_rewards.py and
// check_embeddings.py compare the losses with Python.
#include "core/model/frontend/columns.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/engine/autograd/hooks.h"
#include "core/model/frontend/loss.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/program/blocks.h"
#include "core/model/program/interpreter.h"

namespace memtune::frontend::columns_test {
namespace {

using program::Program;

// Two linear layers, the second if the input's sum is positive.
struct Model {
  Program program;
  at::Tensor weights[2];

  Model() {
    at::manual_seed(1);
    ProgramEmitter emit(program);
    Value x = emit.input("x");
    program.inputs.back().described = model::InputTensorDescription{"x", "float32", {{2, "rows"}, {4, ""}}};
    for (int i = 0; i < 2; ++i) {
      const std::string name = "layers." + std::to_string(i);
      const ProgramEmitter::InRegion region(emit, name, "Linear");
      weights[i] = at::randn({4, 4}).requires_grad_();
      const Value weight = emit.parameter(name + ".weight", weights[i]);
      const auto layer = [&] { return Values{emit.op("aten::linear", "", {x, weight})}; };
      const Value positive = emit.op("aten::gt", "Scalar", {emit.op("aten::sum", "", {x}), 0});
      x = i == 0 ? layer()[0]
                 : emit.branch(emit.op("aten::is_nonzero", "", {positive}), layer, [&] { return Values{x}; })[0];
    }
    emit.answer(x);
  }

  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor y = at::linear(x, weights[0]);
    return y.sum().item<float>() > 0 ? at::linear(y, weights[1]) : y;
  }
};

std::vector<at::Tensor> outputs(const Program& program, const at::Tensor& anchors, const at::Tensor& positives) {
  std::vector<at::Tensor> tensors;
  const c10::IValue answer = program::Interpreter(with_loss(program, LossKind::none, "")).run({anchors, positives});
  for (const c10::IValue& element : answer.toTupleRef().elements()) tensors.push_back(element.toTensor());
  return tensors;
}

TEST_CASE("each column gives what the model alone gives") {
  const Model model;
  const Program both = in_columns(model.program);
  CHECK(program::input_names(both) == std::vector<std::string>{"anchor_x", "positive_x"});
  CHECK(both.inputs[1].described->name == "positive_x");
  CHECK(both.inputs[1].described->dimensions[0].symbol != both.inputs[0].described->dimensions[0].symbol);
  CHECK(both.state.parameters.size() == 2);
  for (int i = 0; i < 4; ++i) {
    const at::Tensor anchors = at::randn({3, 4}), positives = at::randn({5, 4});
    const auto found = outputs(both, anchors, positives);
    CHECK(at::equal(found[0], model.forward(anchors)));
    CHECK(at::equal(found[1], model.forward(positives)));
  }
}

TEST_CASE("the layers of each column are blocks of their own") {
  const Model model;
  const Program both = in_columns(model.program);
  CHECK(both.regions.size() == 2 * model.program.regions.size() - 1);
  for (const int block : program::find_blocks(both, "layers.*")) CHECK(both.regions[block].parent == 0);
  CHECK(program::find_blocks(both, "layers.*").size() == 4);
}

TEST_CASE("the loss of embeddings is the cross entropy of scaled cosines") {
  const Model model;
  const at::Tensor anchors = at::randn({5, 4}), positives = at::randn({5, 4});
  const auto unit = [](const at::Tensor& x) { return x / x.norm(2, 1, true); };
  const at::Tensor scores = 20 * at::mm(unit(model.forward(anchors)), unit(model.forward(positives)).t());
  const at::Tensor expected = at::cross_entropy_loss(scores, at::arange(5));
  const at::Tensor found = program::Interpreter(with_loss(in_columns(model.program), LossKind::embedding, ""))
                               .run({anchors, positives})
                               .toTensor();
  CHECK(found.item<float>() == doctest::Approx(expected.item<float>()));
}

TEST_CASE("a margin is taken off the difference of the scores") {
  Program program;
  ProgramEmitter emit(program);
  const Value x = emit.input("x");
  emit.answer(emit.op("aten::mul", "Tensor", {x, emit.parameter("scale", at::ones({1}).requires_grad_())}));
  const Program trained = with_loss(program, LossKind::reward, "x");
  CHECK(program::input_names(trained) == std::vector<std::string>{"x", "margin"});
  const at::Tensor scores = at::randn({4, 1}), margin = at::rand({2});
  const auto loss = [&](const at::Tensor& given) {
    return program::Interpreter(trained).run({scores, given}).toTensor().item<float>();
  };
  const at::Tensor difference = scores.view(-1).narrow(0, 0, 2) - scores.view(-1).narrow(0, 2, 2);
  const auto expected = [](const at::Tensor& x) { return -at::log_sigmoid(x).mean().item<float>(); };
  CHECK(loss({}) == expected(difference));
  CHECK(loss(margin) == expected(difference - margin));
}

}  // namespace
}  // namespace memtune::frontend::columns_test
