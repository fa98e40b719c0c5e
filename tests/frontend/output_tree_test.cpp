// The loss must use the model output that the user means, whatever structure the output has.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/api/module.h>

#include "core/base/error.h"
#include "core/model/frontend/model_output.h"
#include "core/model/program/interpreter.h"
#include "tests/support/lower.h"
namespace memtune::frontend::model_output_test {
namespace {

using c10::IValue;

const at::Tensor kLogits = at::full({2, 3}, 1.0), kOther = at::full({4, 3}, 2.0), kNumber = at::full({}, 5.0);

IValue tuple(std::vector<IValue> elements) { return c10::ivalue::Tuple::create(std::move(elements)); }

IValue dict(const std::vector<std::pair<std::string, at::Tensor>>& entries) {
  c10::Dict<std::string, at::Tensor> made;
  for (const auto& [key, value] : entries) made.insert(key, value);
  return made;
}

double at_first(const at::Tensor& tensor) { return tensor.flatten()[0].item<double>(); }

TEST_CASE("a computed loss finds the logits in any structure of the output") {
  const auto first = [](const IValue& answer) { return at_first(choose(answer, LossKind::cross_entropy, "")); };
  CHECK(first(kLogits) == 1);
  CHECK(first(tuple({kNumber, kLogits})) == 1);
  CHECK(first(dict({{"aux", kOther}, {"out", kLogits}})) == 1);
  CHECK(first(dict({{"scores", kOther}})) == 2);
  CHECK(first(c10::List<at::Tensor>({kOther, kLogits})) == 2);
  CHECK(first(tuple({dict({{"logits", kLogits}}), kOther})) == 1);
}

TEST_CASE("a returned loss is the loss entry or the only number or the sum of all numbers") {
  const auto loss = [](const IValue& answer) { return at_first(choose(answer, LossKind::returned, "")); };
  CHECK(loss(tuple({kLogits, kNumber})) == 5);
  CHECK(loss(dict({{"a", kNumber}, {"loss", at::full({}, 7.0)}})) == 7);
  CHECK(loss(dict({{"boxes", kNumber}, {"classes", kNumber}})) == 10);
  CHECK(loss(tuple({dict({{"boxes", kNumber}, {"classes", kNumber}}), c10::List<at::Tensor>({kLogits})})) == 10);
}

TEST_CASE("a part is chosen by its name or number and the error for an unknown part lists the parts") {
  const IValue answer = tuple({kLogits, dict({{"a.b", kOther}, {"c", kNumber}})});
  CHECK(at_first(choose(answer, LossKind::mse, "1.a.b")) == 2);
  CHECK(at_first(choose(answer, LossKind::mse, "0")) == 1);
  CHECK_THROWS_WITH_AS(choose(answer, LossKind::mse, "1.d"),
                       "--output 1.d: no such part; the model returns Tuple (0: float32[2,3], 1: GenericDict (a.b: "
                       "float32[4,3], c: float32[]))",
                       UsageError);
  CHECK_THROWS_AS(choose(tuple({at::ones({2}, at::kLong)}), LossKind::mse, ""), UsageError);
}

struct Trained {
  double loss;
  std::string note;
};

Trained train(const std::string& answer, LossKind loss, const std::string& output = "") {
  torch::jit::Module module("Model");
  module.define("def forward(self, x):\n    return " + answer + "\n");
  const program::Program program =
      with_loss(lower_module(module, c10::kCPU), loss, loss == LossKind::returned ? "" : "target", output);
  std::vector<IValue> inputs = {at::ones({2, 3})};
  if (loss != LossKind::returned) inputs.emplace_back(at::zeros({2, 3}));
  const double value = program::Interpreter(program).run(inputs).toTensor().item<double>();
  return {value, *program.answer_note};
}

double trained(const std::string& answer, LossKind loss, const std::string& output = "") {
  return train(answer, loss, output).loss;
}

TEST_CASE("the part of a program's output is chosen in the same way before it runs") {
  CHECK(trained("(x * 2, x.mean())", LossKind::returned) == 1);
  CHECK(trained("(x.mean(), x * 2)", LossKind::mse) == 4);
  CHECK(trained("(x, x * 3)", LossKind::mse, "1") == 9);
  CHECK(trained("{'aux': x, 'out': x * 2}", LossKind::mse) == 4);
  CHECK(trained("{'aux': x, 'out': x * 2}", LossKind::mse, "aux") == 1);
  CHECK(trained("[x * 2, x]", LossKind::mse) == 4);
  CHECK(trained("(x, {'a': x * 2})", LossKind::mse, "1.a") == 4);
  CHECK(trained("((x, x * 2), x.mean())", LossKind::returned) == 1);
  CHECK(trained("((x.mean(), x * 2), x)", LossKind::mse) == 4);
  CHECK(trained("(x, x.mean() if x.dim() == 2 else x.sum())", LossKind::returned) == 1);
  CHECK_THROWS_AS(trained("(x, x)", LossKind::mse, "2"), UsageError);
}

TEST_CASE("a part chosen among several candidates gets a note that it is a guess") {
  const auto note = [](const std::string& answer, LossKind loss, const std::string& output = "") {
    return train(answer, loss, output).note;
  };
  const std::string end = " of it is a guess: select the part with --output";
  CHECK(note("{'aux': x, 'out': x * 2}", LossKind::mse) ==
        "the model returns GenericDict (aux: float32[2,3], out: float32[2,3]); that the loss takes 'out'" + end);
  CHECK(note("[x * 2, x]", LossKind::mse) ==
        "the model returns GenericList (0: float32[2,3], 1: float32[2,3]); that the loss takes '0'" + end);
  CHECK(note("(x, x * 3)", LossKind::mse) == "the model returns a tuple of 2; that the loss takes part 0" + end);
  CHECK(note("((x, x * 3), x.mean())", LossKind::mse) ==
        "the model returns a tuple of 2; that the loss takes part 0.0" + end);
  CHECK(note("{'boxes': x.mean(), 'classes': x.sum()}", LossKind::returned) ==
        "the model returns GenericDict (boxes: float32[], classes: float32[]); that the loss takes the sum" + end);
  CHECK(note("(x.mean(), x.sum())", LossKind::returned).find("takes part 0") != std::string::npos);

  CHECK(note("x", LossKind::mse).empty());
  CHECK(note("((x, x * 3), x.mean())", LossKind::returned).empty());
  CHECK(note("(x * 2, x.mean())", LossKind::mse).empty());
  CHECK(note("(x * 2, x.mean())", LossKind::returned).empty());
  CHECK(note("{'loss': x.mean(), 'aux_loss': x.sum()}", LossKind::returned).empty());
  CHECK(note("{'logits': x * 2, 'loss': x.mean()}", LossKind::mse).empty());
  CHECK(note("[x]", LossKind::mse).empty());
  CHECK(note("{'aux': x, 'out': x * 2}", LossKind::mse, "aux").empty());
  CHECK(note("(x, x * 3)", LossKind::mse, "1").empty());
}

}  // namespace
}  // namespace memtune::frontend::model_output_test
