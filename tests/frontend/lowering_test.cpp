// Changes that a front end makes must not alter the result of a model. An error must use the model's own words.
#include "core/model/frontend/torchscript/lowering.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/model/frontend/generated_mask.h"
#include "core/model/program/interpreter.h"
#include "tests/support/lower.h"
namespace memtune::frontend::lowering_test {
namespace {

using program::Program;
using torch::jit::Module;

Module model(const std::string& source) {
  Module module("Model");
  module.define(source);
  return module;
}

Program lowered(const Module& module, const std::vector<std::string>& arguments = {}) {
  return with_loss(lower_module(module, c10::kCPU, arguments), LossKind::none, "");
}

int count(const program::ProgramOrControlFlowBody& body, const std::string& name) {
  int found = 0;
  for (const program::Op& op : body.ops) found += op.name == name;
  return found;
}

TEST_CASE("slices of everything are removed and other slices stay") {
  const Program program = lowered(model("def forward(self, x):\n    return x[:, 1:, :][:, :, ::2]\n"));
  CHECK(count(program.body, "aten::slice") == 2);
  const at::Tensor x = at::arange(24).view({2, 3, 4});
  CHECK(at::equal(program::Interpreter(program).run({x}).toTensor(),
                  x.slice(1, 1, c10::nullopt, 1).slice(2, c10::nullopt, c10::nullopt, 2)));
}

TEST_CASE("the error of a model's own raise has its text and line") {
  const Program program =
      lowered(model("def forward(self, x):\n    assert x.dim() == 2, 'two dimensions please'\n    return x\n"));
  CHECK(program::Interpreter(program).run({at::ones({1, 1})}).isTensor());
  try {
    program::Interpreter(program).run({at::ones({1})});
    FAIL("it did not raise");
  } catch (const program::ModelRaisedError& error) {
    CHECK(std::string(error.what()).find("two dimensions please' at <string>:2") != std::string::npos);
  }
}

TEST_CASE("arguments other than tensors take the given values or the error shows how to give them") {
  const Module steps =
      model("def forward(self, x, steps: int, twice: bool = False):\n    return x * steps * (2 if twice else 1)\n");
  const auto run = [&](const std::vector<std::string>& given) {
    return program::Interpreter(lowered(steps, given)).run({at::ones({})}).toTensor().item<double>();
  };
  CHECK(run({"steps=3"}) == 3);
  CHECK(run({"steps=3", "twice=true"}) == 6);
  const auto refused = [&](const std::vector<std::string>& given, const std::string& why) {
    CHECK_THROWS_WITH_AS(run(given), why.c_str(), UsageError);
  };
  refused({}, "forward's argument 'steps' is a int without a default; say --input 'steps=VALUE'");
  refused({"steps=3", "twice=perhaps"}, "--input twice: 'perhaps' is neither true nor false");
  refused({"stesp=3"}, "unknown input 'stesp'; did you mean 'steps'? Known: x, steps, twice");
  refused({"x=3"}, "--input x=3: 'x' is a tensor; say what it is, as in 'x:int64[2,128]<1000'");
}

TEST_CASE("a list or tuple or dict of tensors without a default is refused with what to export instead") {
  const auto refusal = [](const std::string& type) -> std::string {
    try {
      lowered(model("def forward(self, x, parts: " + type + "):\n    return x\n"));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string type :
       {"List[Tensor]", "Tuple[Tensor, Tensor]", "Dict[str, Tensor]", "Optional[List[Tensor]]"})
    CHECK(refusal(type) == "forward's argument 'parts' is a " + type +
                               ": memtune gives a model tensors, numbers and text; export a module whose forward takes "
                               "the tensors one by one and makes it of them");
  CHECK(refusal("Optional[Tensor]").empty());
  CHECK(refusal("Optional[List[Tensor]] = None").empty());
}

Module with_constant(const at::Tensor& constant, const std::string& op) {
  auto graph = std::make_shared<torch::jit::Graph>();
  Module module("Model");
  module.define("def forward(self, x):\n    return x\n");
  auto& body = *torch::jit::toGraphFunction(module.get_method("forward").function()).graph();
  torch::jit::WithInsertPoint here(body.return_node());
  torch::jit::Value* value = body.insertConstant(constant);
  body.block()->replaceOutput(0, body.insert(c10::Symbol::fromQualString(op), {body.inputs()[1], value}));
  return module;
}

TEST_CASE("single numbers in arithmetic stay on the CPU and other constants go to the device") {
  const auto device_of = [](const at::Tensor& constant, const std::string& op) {
    const Program program = lower_module(with_constant(constant, op), c10::kMeta);
    for (const c10::IValue& value : program.constants)
      if (value.isTensor()) return value.toTensor().device().type();
    return c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES;
  };
  CHECK(device_of(at::full({}, 2.0), "aten::mul") == c10::kCPU);
  CHECK(device_of(at::full({3}, 2.0), "aten::mul") == c10::kMeta);
  CHECK(device_of(at::full({}, 2.0), "aten::matmul") == c10::kMeta);
}

TEST_CASE("a recorded number promotes dtypes as a Python number and a recorded tensor as a tensor") {
  const auto type_of = [](const at::Tensor& x, const at::Tensor& constant) {
    return program::Interpreter(lowered(with_constant(constant, "aten::mul"))).run({x}).toTensor().scalar_type();
  };
  const at::Tensor real = at::full({}, 2.5, at::kDouble), whole = at::full({}, 2, at::kLong),
                   imaginary = at::full({}, c10::complex<double>(0, 1), at::kComplexDouble);
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    CHECK((type_of(at::ones({}, type), real) == type));
    CHECK((type_of(at::ones({}, type), whole) == type));
  }
  CHECK((type_of(at::ones({}, at::kInt), whole) == at::kInt));
  CHECK((type_of(at::ones({}, at::kInt), real) == at::kFloat));
  CHECK((type_of(at::ones({3}, at::kInt), real) == at::kFloat));
  CHECK((type_of(at::ones({}), imaginary) == at::kComplexFloat));
  CHECK((type_of(at::ones({}, at::kBFloat16), at::full({}, 2.5, at::kFloat)) == at::kFloat));
  CHECK((type_of(at::ones({}), at::full({1}, 2.5, at::kDouble)) == at::kDouble));
}

TEST_CASE("a mask that depends on no input gets a note and a given mask does not") {
  const auto note = [&](const std::string& body) {
    return note_on_generated_mask(lowered(model("def forward(self, x, given):\n" + body)));
  };
  const std::string made = note(
      "    n = torch.arange(x.size(-2))\n    mask = n[None, :] <= n[:, None]\n"
      "    return torch.scaled_dot_product_attention(x, x, x, mask)\n");
  CHECK(made.find("1 attentions") == 0);
  CHECK(made.find("memtune convert") != std::string::npos);
  CHECK(note("    return torch.scaled_dot_product_attention(x, x, x, given)\n") == "");
  CHECK(note("    n = torch.arange(x.size(-2))\n    mask = (n[None, :] <= n[:, None]) & given\n"
             "    return torch.scaled_dot_product_attention(x, x, x, mask)\n") == "");
  CHECK(note("    return torch.scaled_dot_product_attention(x, x, x, None, 0.0, True)\n") == "");
}

}  // namespace
}  // namespace memtune::frontend::lowering_test
