// Tests which weights are quantized in programs of every form, and that no whole weight stays in memory.
// tests/models/check_adapters.py compares the bits with bitsandbytes.
#include "core/model/frontend/adapter/quantizer.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/api/module.h>

#include <fstream>

#include "core/base/error.h"
#include "core/model/frontend/front_end.h"
#include "core/model/frontend/loss.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/frontend/torchscript/lowering.h"
#include "core/model/program/interpreter.h"
#include "core/model/quantized/int8.h"
#include "core/model/quantized/nf4.h"
#include "tests/support/run_program.h"
#include "tests/support/training.h"
namespace memtune::frontend::quantizer_test {
namespace {

using program::Program;

const char* const kConfig = R"({"model_type": "llama", "vocab_size": 50, "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
  "hidden_act": "silu", "tie_word_embeddings": false})";

at::Tensor parameter(const Program& program, const std::string& name) {
  for (const auto& [known, tensor] : program.state.parameters)
    if (known == name) return tensor;
  return {};
}

size_t count(const Program& program, const std::string& name) {
  return static_cast<size_t>(
      std::ranges::count_if(program.body.ops, [&](const program::Op& op) { return op.name == name; }));
}

struct Folder : test::ScratchFolder {
  explicit Folder(const std::string& config = kConfig) { std::ofstream(path / "config.json") << config; }
  Program lowered(const std::string& load_in) const {
    ModelSourceAndLoweringOptions source;
    source.model.path = (path / "config.json").string();
    source.dtype = "bfloat16";
    source.load_in = load_in;
    source.lora = load_in.empty() ? "" : "r=2";
    return lower(source);
  }
};

torch::jit::Module linear_module(const char* forward) {
  torch::jit::Module layer("Linear"), model("Model");
  layer.register_parameter("weight", at::randn({64, 64}).requires_grad_(), false);
  layer.define("def forward(self, x):\n    return torch.linear(x, self.weight)\n");
  torch::jit::Module head("Linear");
  head.register_parameter("weight", at::randn({3, 64}).requires_grad_(), false);
  head.define("def forward(self, x):\n    return torch.linear(x, self.weight)\n");
  model.register_module("fc", layer);
  model.register_module("head", head);
  model.define(forward);
  return model;
}

}  // namespace

TEST_CASE("all linear layers of a config except the head are quantized under bitsandbytes names") {
  const Folder folder;
  const Program plain = folder.lowered(""), program = folder.lowered("4bit");
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const quantized::Nf4Weight expected =
      quantized::pack_nf4(parameter(plain, name), quantized::Nf4AbsmaxScaleEncoding::quantized);
  CHECK(at::equal(parameter(program, name), expected.bytes));
  CHECK(at::equal(parameter(program, name + ".absmax"), expected.largest));
  CHECK(at::equal(parameter(program, name + ".nested_absmax"), expected.largest_of_largest));
  CHECK(at::equal(parameter(program, name + ".nested_offset"), expected.mean));
  CHECK((parameter(program, "lm_head.weight").scalar_type() == at::kBFloat16));
  CHECK(count(program, "memtune::linear_4bit") == 2 * 7);
  CHECK(count(program, "aten::linear") == 2 * 7 * 2 + 1);
}

TEST_CASE("at most two weights are whole while a config is read") {
  std::string config = kConfig;
  config.replace(config.find("64,"), 3, "512,").replace(config.find("128,"), 4, "2048,");
  const Folder folder(config);
  auto& device = tests::test_device();
  device.reset_peak();
  const int64_t before = device.memory().allocated;
  const Program program = folder.lowered("4bit");
  const int64_t held = device.memory().allocated - before, peak = device.memory().peak_allocated - before;
  const int64_t largest = 2048 * 512 * 2, all = 2 * (3 * largest + 4 * 512 * 512 * 2);
  const int64_t noise = int64_t{1048573} * (4 + 2);  // the random numbers that synthetic weights repeat
  CHECK(held < all / 2);
  CHECK(peak - held < noise + 2 * largest);
}

TEST_CASE("absmax stays in float32 without double quantization") {
  const Program program = Folder().lowered("4bit-single");
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  CHECK((parameter(program, name + ".absmax").scalar_type() == at::kFloat));
  CHECK_FALSE(parameter(program, name + ".nested_absmax").defined());
}

TEST_CASE("each layer in 8 bits has its numbers and an absmax per row under bitsandbytes names") {
  const Folder folder;
  const Program plain = folder.lowered(""), program = folder.lowered("8bit");
  const std::string module = "model.layers.1.mlp.up_proj.";
  const quantized::Int8Weight expected = quantized::pack_int8(parameter(plain, module + "weight"));
  CHECK(at::equal(parameter(program, module + "weight"), expected.numbers));
  CHECK(at::equal(parameter(program, module + "SCB"), expected.largest));
  CHECK((parameter(program, "lm_head.weight").scalar_type() == at::kBFloat16));
  CHECK(count(program, "memtune::linear_8bit") == 2 * 7);
}

TEST_CASE("transposed layers of gpt2 are transposed back before they are quantized") {
  const Folder folder(
      R"({"model_type": "gpt2", "vocab_size": 50, "n_embd": 64, "n_inner": 128, "n_layer": 2, "n_head": 2,
    "n_positions": 16, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"})");
  const Program plain = folder.lowered("");
  const std::string name = "transformer.h.1.mlp.c_fc.weight";
  const at::Tensor weight = parameter(plain, name).t();
  CHECK(at::equal(parameter(folder.lowered("8bit"), name), quantized::pack_int8(weight).numbers));
  const Program program = folder.lowered("4bit");
  CHECK(at::equal(parameter(program, name),
                  quantized::pack_nf4(weight, quantized::Nf4AbsmaxScaleEncoding::quantized).bytes));
  CHECK(count(program, "memtune::linear_4bit") == 2 * 4);
}

TEST_CASE("a TorchScript layer that runs twice is quantized once and its whole weight is freed") {
  const torch::jit::Module module =
      linear_module("def forward(self, x):\n    return self.head.forward(self.fc.forward(self.fc.forward(x)))\n");
  const at::Tensor weight = module.attr("fc").toModule().attr("weight").toTensor();
  const auto packed = quantized::pack_nf4(weight, quantized::Nf4AbsmaxScaleEncoding::plain);
  Program program = lower_module(module, c10::kCPU);
  quantize(program, "4bit-single");
  CHECK(count(program, "memtune::linear_4bit") == 2);
  CHECK(program.state.parameters.size() == 3);  // the weight, its absmax and the head's weight
  CHECK((module.attr("fc").toModule().attr("weight").toTensor().scalar_type() == at::kByte));
  const at::Tensor x = at::randn({2, 64}), whole = quantized::unpack_nf4(packed, {64, 64}, at::kFloat);
  const Program runs = with_loss(program, LossKind::none, "");
  const at::Tensor head = module.attr("head").toModule().attr("weight").toTensor();
  CHECK(at::equal(program::Interpreter(runs).run({x}).toTensor(),
                  at::linear(at::linear(at::linear(x, whole), whole), head)));
}

TEST_CASE("a subclass of Linear stays whole beside a Linear") {
  Program program;
  ProgramEmitter emit(program);
  Value x = emit.input("x");
  for (const char* type : {"Linear", "FalconLinear", "Linear"}) {
    const std::string name = std::to_string(program.regions.size());
    const ProgramEmitter::InRegion region(emit, name, type);
    x = emit.op("aten::linear", "", {x, emit.parameter(name + ".weight", at::ones({64, 64}).requires_grad_())});
  }
  emit.answer(x);
  quantize(program, "4bit");
  CHECK(count(program, "memtune::linear_4bit") == 1);
  CHECK(program.body.ops[0].name == "memtune::linear_4bit");
  for (const char* whole : {"2.weight", "3.weight"}) CHECK(parameter(program, whole).is_floating_point());
}

TEST_CASE("a weight that another op reads stays whole and a model with no other weight is refused") {
  Program program = lower_module(
      linear_module("def forward(self, x):\n    return self.head.forward(self.fc.forward(x)) + self.fc.weight.sum()\n"),
      c10::kCPU);
  CHECK_THROWS_WITH_AS(quantize(program, "4bit"),
                       "--load-in: the model has no linear layer besides its output head that can be quantized; "
                       "transformers leaves subclasses of Linear as they are, so measure without --load-in",
                       UsageError);
}

}  // namespace memtune::frontend::quantizer_test
