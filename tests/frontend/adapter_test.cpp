// Tests which layers get an adapter, and that a model's form does not matter. tests/models/check_adapters.py compares
// the bits with peft.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/api/module.h>

#include <fstream>
#include <set>

#include "core/base/error.h"
#include "core/engine/autograd/hooks.h"
#include "core/model/frontend/adapter/lora_writer.h"
#include "core/model/frontend/front_end.h"
#include "core/model/frontend/loss.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/frontend/torchscript/lowering.h"
#include "core/model/program/interpreter.h"
#include "core/model/safetensors/layout.h"
#include "tests/frontend/decoder_module.h"
#include "tests/support/rounding.h"
#include "tests/support/run_program.h"
namespace memtune::frontend::adapter_test {
namespace {

using program::Program;

constexpr tests::DecoderSizes kSizes = {
    .vocabulary = 32, .hidden = 16, .blocks = 2, .heads = 4, .kv_heads = 2, .mlp = 24, .sequence = 12};

model::LoraConfig noisy(const std::string& text) {
  model::LoraConfig lora = model::parse_lora(text);
  lora.start = model::LoraInit::noise;  // while B is zero, A has no gradient
  return lora;
}

Program decoder() { return tests::build_decoder(kSizes, at::kFloat, c10::kCPU, 5); }

std::map<std::string, at::Tensor> gradients(const Program& model, LossKind loss, const std::string& target,
                                            std::vector<c10::IValue> inputs) {
  const Program program = with_loss(model, loss, target);
  autograd::backward(program::Interpreter(program).run(std::move(inputs)).toTensor());
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, parameter] : program.state.parameters)
    if (parameter.grad().defined()) gradients[name] = parameter.grad();
  return gradients;
}

std::set<std::string> trained(const Program& program) {
  std::set<std::string> names;
  for (const auto& [name, parameter] : program.state.parameters)
    if (parameter.requires_grad()) names.insert(name);
  return names;
}

std::string refusal(Program program, const std::string& lora) {
  try {
    add_lora(program, model::parse_lora(lora), 0);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an adapter has the same gradients for every form of a model") {
  const at::Tensor tokens = (at::arange(24) * 7).remainder(32).view({2, 12});
  const model::LoraConfig lora = noisy("r=3,alpha=6,targets=wq+w2+output");
  Program model = decoder();
  const program::ModelParametersAndBuffers state = model.state;
  add_lora(model, lora, 1);
  const auto expected = gradients(model, LossKind::next_token, "tokens", {tokens});
  CHECK(expected.size() == 2 * (2 + 2 + 1));
  for (const auto form : {tests::Form::scripted, tests::Form::traced}) {
    const torch::jit::Module module = tests::decoder_module(kSizes, state, form);
    Program other = lower_module(module, c10::kCPU);
    add_lora(other, lora, 1);
    const auto found = gradients(other, LossKind::next_token, "tokens", {tokens});
    REQUIRE(found.size() == expected.size());
    for (const auto& entry : expected) {
      CAPTURE(entry.first);
      REQUIRE(found.contains(entry.first));
      CHECK(at::equal(found.at(entry.first), entry.second));
      CHECK(entry.second.abs().max().item<double>() > 0);
    }
  }
}

TEST_CASE("adapter gradients equal those of the merged weight within rounding") {
  at::manual_seed(1);
  Program program;
  ProgramEmitter emit(program);
  const at::Tensor weight = at::randn({5, 4}).requires_grad_();
  {
    const ProgramEmitter::InRegion region(emit, "up", "Linear");
    emit.answer(emit.op("aten::linear", "", {emit.input("x"), emit.parameter("up.weight", weight)}));
  }
  model::LoraConfig lora = noisy("r=2,alpha=6,targets=up");
  add_lora(program, lora, 3);
  const at::Tensor x = at::randn({3, 4}), y = at::randn({3, 5});
  const auto found = gradients(program, LossKind::mse, "y", {x, y});
  std::map<std::string, at::Tensor> factors;
  for (const auto& [name, tensor] : program.state.parameters) factors[name] = tensor.detach().clone().requires_grad_();
  const at::Tensor &a = factors.at("base_model.model.up.lora_A.weight"),
                   &b = factors.at("base_model.model.up.lora_B.weight");
  autograd::backward(at::mse_loss(at::linear(x, factors.at("up.weight") + 3.0 * at::mm(b, a)), y));
  REQUIRE(found.size() == 2);
  CHECK(tests::half_of_digits_equal(found.at("base_model.model.up.lora_A.weight"), a.grad()));
  CHECK(tests::half_of_digits_equal(found.at("base_model.model.up.lora_B.weight"), b.grad()));
  CHECK_FALSE(weight.grad().defined());
}

TEST_CASE("linear layers in branches and loops get one adapter each") {
  torch::jit::Module model("Model");
  for (const char* name : {"fc", "other"}) {
    torch::jit::Module layer("Linear");
    layer.register_parameter("weight", at::randn({4, 4}).requires_grad_(), false);
    layer.define("def forward(self, x):\n    return torch.linear(x, self.weight)\n");
    model.register_module(name, layer);
  }
  model.define(R"(
def forward(self, x):
    for i in range(3):
        x = self.fc.forward(x)
    if bool(x.sum() > 0):
        x = self.other.forward(x)
    else:
        x = x * 2
    return x
)");
  Program program = lower_module(model, c10::kCPU);
  add_lora(program, noisy("r=2,targets=fc+other"), 0);
  CHECK(trained(program).size() == 4);
  const auto found = gradients(program, LossKind::mse, "y", {at::ones({2, 4}), at::zeros({2, 4})});
  CHECK(found.contains("base_model.model.fc.lora_A.weight"));
}

TEST_CASE("with tied weights the module that runs gets the adapter and all-linear leaves the head out") {
  Program program;
  ProgramEmitter emit(program);
  const at::Tensor table = at::randn({6, 4}).requires_grad_();
  const Value ids = emit.input("ids");
  Value x = emit.op("aten::embedding", "", {emit.parameter("embed.weight", table), ids});
  {
    const ProgramEmitter::InRegion region(emit, "up", "Linear");
    x = emit.op("aten::linear", "", {x, emit.parameter("up.weight", at::randn({4, 4}).requires_grad_())});
  }
  {
    const ProgramEmitter::InRegion region(emit, "head", "Linear");
    x = emit.op("aten::linear", "", {x, emit.parameter("head.weight", table)});
  }
  emit.answer(x);
  Program all = program;
  add_lora(all, model::parse_lora("r=1"), 0);
  CHECK(trained(all) ==
        std::set<std::string>{"base_model.model.up.lora_A.weight", "base_model.model.up.lora_B.weight"});
  add_lora(program, model::parse_lora("r=1,targets=head"), 0);
  CHECK(trained(program) ==
        std::set<std::string>{"base_model.model.head.lora_A.weight", "base_model.model.head.lora_B.weight"});
}

TEST_CASE("a TopKRouter that multiplies by a weight is refused as a target") {
  Program program;
  ProgramEmitter emit(program);
  const ProgramEmitter::InRegion region(emit, "mlp.gate", "TopKRouter");
  emit.answer(emit.op("aten::linear", "",
                      {emit.input("x"), emit.parameter("mlp.gate.weight", at::ones({2, 2}).requires_grad_())}));
  CHECK(refusal(program, "targets=gate") ==
        "--lora: the targets name 'mlp.gate', which is a TopKRouter: adapters are built for linear layers, Conv1D and "
        "embeddings");
}

TEST_CASE("the error for a part of a joined layer names a model type that has the parts") {
  const auto refusal_with = [](const char* layer, const char* targets) {
    Program program;
    ProgramEmitter emit(program);
    const ProgramEmitter::InRegion region(emit, layer, "Linear");
    const auto weight = emit.parameter(std::string(layer) + ".weight", at::ones({2, 2}).requires_grad_());
    emit.answer(emit.op("aten::linear", "", {emit.input("x"), weight}));
    return refusal(program, targets);
  };
  CHECK(refusal_with("qkv_proj", "targets=v_proj") ==
        "--lora: no linear layer is a target by 'v_proj'. Name some of the model's linear layers: qkv_proj. An "
        "adapter of qkv_proj is another than one of its part v_proj. For those of the parts, as torchtune trains "
        "Phi-3, give --model a copy of config.json with the model_type mistral, which has them apart");
  // A GLM has its attention apart, and no other model type has its parts.
  CHECK(refusal_with("mlp.gate_up_proj", "targets=up_proj").ends_with("is another than one of its part up_proj"));
  CHECK(refusal_with("mlp.gate_up_proj", "targets=v_proj").ends_with("linear layers: gate_up_proj"));
}

TEST_CASE("the error for an unknown target lists the model's linear layers") {
  CHECK(refusal(decoder(), "targets=wq+wx") ==
        "--lora: no linear layer is a target by 'wx'. Name some of the model's linear layers: wq, wk, wv, wo, w1, w3, "
        "w2, output");
  CHECK(refusal(decoder(), "targets=nothing") ==
        "--lora: no linear layer is a target by 'nothing'. Name some of the model's linear layers: wq, wk, wv, wo, w1, "
        "w3, w2, "
        "output");
}

TEST_CASE("targets that name other kinds of modules are refused as in peft") {
  CHECK(refusal(decoder(), "targets=wq+n1") ==
        "--lora: the targets name 'layers.0.n1', which is a RMSNorm: adapters are built for linear layers, "
        "Conv1D and embeddings");
}

TEST_CASE("embedding adapter gradients equal those of the merged table within rounding") {
  Program program = decoder();
  model::LoraConfig lora = noisy("r=2,alpha=6,targets=emb");
  add_lora(program, lora, 3);
  CHECK(trained(program) ==
        std::set<std::string>{"base_model.model.emb.lora_embedding_A", "base_model.model.emb.lora_embedding_B"});
  const at::Tensor tokens = (at::arange(24) * 7).remainder(32).view({2, 12});
  const auto found = gradients(program, LossKind::next_token, "tokens", {tokens});
  Program whole = decoder();
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, tensor] : program.state.parameters) all[name] = tensor.detach().clone().requires_grad_();
  const at::Tensor &a = all.at("base_model.model.emb.lora_embedding_A"),
                   &b = all.at("base_model.model.emb.lora_embedding_B");
  const at::Tensor delta = 3.0 * at::mm(b, a).t();
  {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : whole.state.parameters)
      if (name == "emb.weight") tensor.add_(delta);
  }
  const at::Tensor table = gradients(whole, LossKind::next_token, "tokens", {tokens}).at("emb.weight");
  autograd::backward((delta * table).sum());
  CHECK(tests::half_of_digits_equal(found.at("base_model.model.emb.lora_embedding_A"), a.grad()));
  CHECK(tests::half_of_digits_equal(found.at("base_model.model.emb.lora_embedding_B"), b.grad()));
}

TEST_CASE("a scaled embedding is refused as a target") {
  Program program;
  ProgramEmitter emit(program);
  const ProgramEmitter::InRegion region(emit, "embed", "ScaledEmbedding");
  const at::Tensor table = at::randn({6, 4}).requires_grad_();
  emit.answer(emit.op("aten::embedding", "", {emit.parameter("embed.weight", table), emit.input("ids")}));
  CHECK(refusal(program, "targets=embed") ==
        "--lora: 'embed' is a ScaledEmbedding; of embeddings only plain ones get adapters");
}

TEST_CASE("factors of an adapter file load by name and errors name a missing or misshapen one") {
  const test::ScratchFolder place;
  std::ofstream(place.path / "adapter_config.json") << R"({"peft_type": "LORA", "r": 2, "target_modules": ["output"]})";
  const auto write = [&](int64_t rows, const std::string& second, const std::string& third = "") {
    safetensors::Header header;
    std::vector<safetensors::TensorNameDtypeAndShape> specs = {
        {"base_model.model.output.lora_A.weight", safetensors::Dtype::f32, {2, 16}},
        {"base_model.model.output." + second, safetensors::Dtype::f32, {rows, 2}}};
    if (!third.empty()) specs.push_back({third, safetensors::Dtype::f32, {2, 16}});
    header.entries = safetensors::lay_out(specs);
    std::ofstream(place.path / "adapter_model.safetensors", std::ios::binary)
        << safetensors::print_header(header) << std::string(safetensors::data_bytes_of(header.entries), '\0');
  };
  write(32, "lora_B.weight");
  Program program = decoder();
  add_lora(program, model::parse_lora(place.path.string()), 0);
  CHECK(program.state.parameters.back().first == "base_model.model.output.lora_B.weight");
  CHECK(program.state.parameters[program.state.parameters.size() - 2].second.abs().max().item<double>() == 0);
  write(31, "lora_B.weight");
  CHECK(refusal(decoder(), place.path.string()) ==
        "'base_model.model.output.lora_B.weight' of adapter_model.safetensors is [31, 2], here [32, 2]");
  write(32, "other");
  CHECK(refusal(decoder(), place.path.string()) ==
        "adapter_model.safetensors has no tensor 'base_model.model.output.lora_B.weight'");
  write(32, "lora_B.weight", "base_model.model.layers.0.wq.lora_A.weight");
  CHECK(refusal(decoder(), place.path.string()) ==
        "adapter_model.safetensors has 'base_model.model.layers.0.wq.lora_A.weight', which belongs to no layer that is "
        "adapted here");
}

}  // namespace memtune::frontend::adapter_test
