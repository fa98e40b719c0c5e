// The interpreter must behave like TorchScript's own executor. Loss and gradients are equal bit for bit, and no tensor
// is held longer.
#include "core/model/program/interpreter.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include "core/base/error.h"
#include "core/model/frontend/program_emitter.h"
#include "tests/support/lower.h"
namespace memtune::program::interpreter_test {
namespace {

using frontend::LossKind;
using tests::lower;

using torch::jit::Module;

const c10::Device kCpu(c10::kCPU);

at::Tensor random(at::IntArrayRef shape, int seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return at::randn(shape);
}

Module linear(int seed) {
  Module module("Linear");
  module.register_parameter("weight", random({6, 6}, seed).requires_grad_(), false);
  module.define("def forward(self, x):\n    return torch.linear(x, self.weight)\n");
  return module;
}

Module model(const std::string& source) {
  Module module("Model");
  module.register_module("first", linear(1));
  module.register_module("second", linear(2));
  module.register_attribute("calls", c10::IntType::get(), 0);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_buffer("mean", at::zeros({6}));
  module.define(source);
  return module;
}

struct Result {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
  at::Tensor mean;
  int64_t calls;
};

template <typename Run>
Result train(Module& module, const Run& run) {
  at::manual_seed(7);
  at::Tensor output = run();
  output.sum().backward();
  Result result{output.detach(), {}, module.attr("mean").toTensor().clone(), module.attr("calls").toInt()};
  for (const at::Tensor& parameter : module.parameters()) result.gradients.push_back(parameter.grad());
  return result;
}

// Runs the source with both and compares all results that are visible from outside.
void check_equal_to_torchscript(const std::string& source) {
  torch::jit::getProfilingMode() = false;
  at::Tensor x = random({4, 6}, 3);
  Module ours = model(source), theirs = model(source);
  Program program = lower(ours, LossKind::none, "", kCpu);
  Interpreter interpreter(program);
  Result a = train(ours, [&] { return interpreter.run({x}).toTensor(); });
  Result b = train(theirs, [&] { return theirs.forward({x}).toTensor(); });
  CHECK(at::equal(a.output, b.output));
  CHECK(at::equal(a.mean, b.mean));
  CHECK(a.calls == b.calls);
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    REQUIRE(a.gradients[i].defined() == b.gradients[i].defined());
    if (a.gradients[i].defined()) CHECK(at::equal(a.gradients[i], b.gradients[i]));
  }
}

TEST_CASE("calls and branches and loops give TorchScript's bits") {
  check_equal_to_torchscript(R"(
def forward(self, x):
    y = self.first.forward(x)
    if bool(y.sum() > 0):
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(self.second.forward(y))
    for i in range(3):
        if i == 1:
            continue
        y = y + x * (0.5 * i)
    n = 0
    while n < 2:
        y = self.second.forward(y)
        n += 1
    return y
)");
}

TEST_CASE("lists and tuples and dicts give TorchScript's bits") {
  check_equal_to_torchscript(R"(
def forward(self, x):
    rows: List[Tensor] = []
    for row in x.unbind(0):
        rows.append(torch.tanh(self.first.forward(row)))
    a, b = torch.stack(rows).chunk(2, 1)
    pair = (a, b, 2)
    if x.size(0) > 2:
        pair = (b, a, 3)
    c, d, n = pair
    table: Dict[str, Tensor] = {"c": c, "d": d}
    total = torch.zeros_like(c)
    for name, value in table.items():
        total = total + value * n
    return torch.cat([total, table["d"]], 1) * self.second.forward(x)
)");
}

TEST_CASE("in-place writes and changed attributes give TorchScript's bits") {
  check_equal_to_torchscript(R"(
def forward(self, x):
    y = self.first.forward(x)
    y[:, 0] = x[:, 1] * 2.0
    y[1:3] += 1.0
    y.view([-1])[2:5].zero_()
    y.mul_(0.5).add_(x)
    z = torch.relu_(self.second.forward(y))
    if self.training:
        self.calls = self.calls + 1
        self.mean = self.mean * 0.9 + z.detach().mean(0) * 0.1
    return z + self.mean
)");
}

TEST_CASE("random numbers are drawn in TorchScript's order") {
  check_equal_to_torchscript(R"(
def forward(self, x):
    y = torch.dropout(self.first.forward(x), 0.5, self.training)
    noise = torch.rand_like(y)
    return torch.dropout(self.second.forward(y), 0.25, True) * noise
)");
}

TEST_CASE("a default of an argument that is no tensor is kept and an optional tensor may be missing") {
  Module module("Model");
  module.define(R"(
def forward(self, x, mask: Optional[Tensor] = None, scale: float = 3.0):
    if mask is not None:
        x = x * mask
    return x * scale
)");
  Program program = lower(module, LossKind::none, "", kCpu);
  CHECK(input_names(program) == std::vector<std::string>{"x", "mask"});
  Interpreter interpreter(program);
  at::Tensor two = at::full({2}, 2.0);
  CHECK(interpreter.run({two, at::Tensor()}).toTensor()[0].item<float>() == 6);
  CHECK(interpreter.run({two, two}).toTensor()[0].item<float>() == 12);
}

TEST_CASE("an argument that is no tensor and has no default is refused by name") {
  Module module("Model");
  module.define("def forward(self, x, sizes: List[int]):\n    return x.view(sizes)\n");
  CHECK_THROWS_WITH_AS(lower(module, LossKind::none, "", kCpu),
                       "forward's argument 'sizes' is a List[int]: memtune gives a model tensors, numbers and text; "
                       "export a module whose forward takes the tensors one by one and makes it of them",
                       UsageError);
}

TEST_CASE("losses equal those of the Python training loop") {
  Module module("Model");
  module.define("def forward(self, x):\n    return x\n");
  at::Tensor logits = random({2, 5, 4}, 5), tokens = at::arange(10).remainder(4).view({2, 5});
  auto loss_of = [&](LossKind loss, const at::Tensor& output, const at::Tensor& target) {
    Program program = lower(module, loss, "target", kCpu);
    return Interpreter(program).run({output, target}).toTensor();
  };
  at::Tensor expected = at::cross_entropy_loss(logits.slice(1, 0, 4).reshape({8, 4}), tokens.slice(1, 1).reshape({8}));
  CHECK(at::equal(loss_of(LossKind::next_token, logits, tokens), expected));
  CHECK(
      at::equal(loss_of(LossKind::cross_entropy, logits[0], tokens[0]), at::cross_entropy_loss(logits[0], tokens[0])));
  CHECK(loss_of(LossKind::mse, at::full({3}, 2.0), at::full({3}, 5.0)).item<float>() == 9);
}

TEST_CASE("the loss compares the first element of a tuple or the logits of a dict") {
  for (const char* answer : {"(x, x + 1)", "{\"other\": x + 1, \"logits\": x}"}) {
    Module module("Model");
    module.define(std::string("def forward(self, x):\n    return ") + answer + "\n");
    Program program = lower(module, LossKind::mse, "target", kCpu);
    CHECK(Interpreter(program).run({at::ones({3}), at::ones({3})}).toTensor().item<float>() == 0);
  }
}

class Recorder final : public OpObserver {
 public:
  void before(const Op& op, const Stack& inputs) override {
    for (const auto& input : inputs)
      if (input.isTensor()) uses.emplace_back(op.name, input.toTensor().use_count());
  }
  void after(const Op&, const Stack&) override {}
  std::vector<std::pair<std::string, size_t>> uses;
};

TEST_CASE("the last use of a tensor moves the only reference to the op") {
  Module module("Model");
  module.define("def forward(self, x):\n    y = x * 2\n    z = torch.tanh(y)\n    return torch.exp(y + z)\n");
  Program program = lower(module, LossKind::none, "", kCpu);
  Recorder recorder;
  std::vector<c10::IValue> inputs;
  inputs.emplace_back(at::ones({3}));
  Interpreter(program).run(std::move(inputs), &recorder);
  std::vector<std::pair<std::string, size_t>> expected = {
      {"aten::mul", 1}, {"aten::tanh", 2}, {"aten::add", 1}, {"aten::add", 1}, {"aten::exp", 1}};  // y: tanh, then add
  CHECK(recorder.uses == expected);
}

TEST_CASE("results of branches and loops are moved to their last use as well") {
  Module module("Model");
  module.define(R"(
def forward(self, x):
    y = x * 2
    if x.size(0) > 2:
        z = torch.tanh(y)
    else:
        z = torch.sigmoid(y)
    for i in range(2):
        z = torch.sin(z)
    return torch.exp(z)
)");
  Program program = lower(module, LossKind::none, "", kCpu);
  Recorder recorder;
  Interpreter(program).run({at::ones({3})}, &recorder);
  int seen = 0;
  for (const auto& [name, count] : recorder.uses) {
    if (name != "aten::tanh" && name != "aten::sin" && name != "aten::exp") continue;
    CHECK(count == 1);
    ++seen;
  }
  CHECK(seen == 4);
}

TEST_CASE("an op that throws leaves no tensor held and no mode changed") {
  Module module("Model");
  module.define("def forward(self, x):\n    y = x * 2\n    return y.view([7])\n");
  Program program = lower(module, LossKind::none, "", kCpu);
  Interpreter interpreter(program);
  at::Tensor x = at::ones({3});
  CHECK_THROWS_AS(interpreter.run({x}), c10::Error);
  CHECK(x.use_count() == 1);
  CHECK(interpreter.where().starts_with("aten::view"));
  CHECK(c10::GradMode::is_enabled());
}

TEST_CASE("a region without gradients ends even if an op inside throws") {
  for (const char* size : {"[6]", "[7]"}) {
    Program program;
    frontend::ProgramEmitter emit(program);
    const frontend::Value x = emit.input("x");
    emit.enter_grad_mode(emit.constant(false));
    const frontend::Value sizes = emit.constant(c10::List<int64_t>({size[1] - '0'}));
    const frontend::Value y = emit.op("aten::view", "", {emit.op("aten::mul", "Tensor", {x, x}), sizes});
    emit.leave();
    emit.answer(emit.op("aten::add", "Tensor", {y, x}));
    program = frontend::with_loss(std::move(program), LossKind::none, "");
    Interpreter interpreter(program);
    const at::Tensor input = at::full({6}, 3.0).requires_grad_();
    if (size[1] == '7') {
      CHECK_THROWS_AS(interpreter.run({input}), c10::Error);
    } else {
      interpreter.run({input}).toTensor().sum().backward();
      CHECK(input.grad().eq(1).all().item<bool>());  // x * x has no history
    }
    CHECK(c10::GradMode::is_enabled());
  }
}

TEST_CASE("autocast is on only inside its region") {
  Program program;
  frontend::ProgramEmitter emit(program);
  const frontend::Value x = emit.input("x");
  emit.enter_autocast(emit.constant(std::string("cpu")), emit.constant(true), emit.constant(at::kBFloat16),
                      emit.constant(true));
  const frontend::Value inside = emit.op("aten::mm", "", {x, x});
  emit.leave();
  emit.answer(emit.tuple({inside, emit.op("aten::mm", "", {x, x})}));
  program = frontend::with_loss(std::move(program), LossKind::none, "");
  const auto answer = Interpreter(program).run({at::ones({2, 2})});
  CHECK((answer.toTupleRef().elements()[0].toTensor().scalar_type() == at::kBFloat16));
  CHECK((answer.toTupleRef().elements()[1].toTensor().scalar_type() == at::kFloat));
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("a buffer that the model replaces is freed") {
  Module module("Model");
  module.register_buffer("mean", at::zeros({2}));
  module.define("def forward(self, x):\n    self.mean = self.mean * 0.9 + x\n    return x * 2\n");
  const Program program = lower(module, LossKind::none, "", kCpu);
  const auto before = module.attr("mean").toTensor().storage().getWeakStorageImpl();
  Interpreter(program).run({at::ones({2})});
  CHECK(before.expired());
}

TEST_CASE("a module with an empty body runs") {
  Module module("Model");
  module.define("def forward(self, x):\n    return x\n");
  Program program = lower(module, LossKind::none, "", kCpu);
  CHECK(program.ops == 0);
  CHECK(Interpreter(program).run({at::ones({2})}).toTensor().numel() == 2);
}

}  // namespace
}  // namespace memtune::program::interpreter_test
