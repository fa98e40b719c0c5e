// Facts about a model from shapes alone must equal those of a real forward. For a large model they must need neither
// the memory nor the time of the forward.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/device/torch/make_device.h"
#include "core/engine/step/cpu_kernel_shapes.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/model/safetensors/layout.h"
#include "tests/support/run_program.h"
namespace memtune::tests::shapes_test {
namespace {

using nlohmann::json;
using trial::LoadedModelForwardBackwardSession;

json llama() {
  return {{"model_type", "llama"},    {"vocab_size", 97},         {"hidden_size", 32},
          {"intermediate_size", 48},  {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5},     {"hidden_act", "silu"},
          {"head_dim", 16},           {"attention_dropout", 0.0}, {"tie_word_embeddings", true}};
}

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

std::vector<json> configs() {
  const json gemma = {{"query_pre_attn_scalar", 16}, {"hidden_activation", "gelu_pytorch_tanh"}};
  const json experts = {{"num_experts", 6},
                        {"num_experts_per_tok", 2},
                        {"moe_intermediate_size", 24},
                        {"shared_expert_intermediate_size", 40}};
  const json gpt2 = {
      {"model_type", "gpt2"}, {"vocab_size", 97},           {"n_embd", 32},      {"n_layer", 2},
      {"n_head", 4},          {"layer_norm_epsilon", 1e-5}, {"n_positions", 64}, {"activation_function", "gelu_new"}};
  return {llama(),
          with(llama(), {{"attention_dropout", 0.1}}),
          with(llama(), with(gemma, {{"model_type", "gemma3_text"}})),
          with(llama(), {{"model_type", "phi3"}, {"resid_pdrop", 0.1}, {"pad_token_id", nullptr}}),
          with(llama(), {{"model_type", "olmo2"}}),
          with(llama(), {{"model_type", "cohere2"}, {"layer_norm_eps", 1e-5}, {"logit_scale", 0.5}}),
          with(llama(), {{"model_type", "stablelm"}, {"layer_norm_eps", 1e-5}, {"qk_layernorm", true}}),
          with(llama(), {{"model_type", "gpt_neox"}, {"layer_norm_eps", 1e-5}}),
          with(llama(), {{"model_type", "glm4"}, {"pad_token_id", nullptr}}),
          with(llama(), with(experts, {{"model_type", "qwen2_moe"}})),
          gpt2};
}

struct Place : test::ScratchFolder {
  plan::TrialRequest request(const json& config, const std::string& dtype, int64_t batch, int64_t sequence) const {
    std::ofstream(path / "config.json") << config;
    plan::TrialRequest request;
    request.model.path = (path / "config.json").string();
    request.training.dtype = dtype;
    request.training.device = "cpu";
    request.training.loss = "causal_lm";
    request.training.batch = batch;
    request.training.sequence = sequence;
    return request;
  }
};

json facts(const plan::TrialRequest& request, trial::RealOrShapeOnlyTensorMode tensors) {
  device::make_device("cpu")->set_cap(0);  // removes the cap that other tests leave
  LoadedModelForwardBackwardSession session(request, tensors);
  session.survey();
  return session.facts();
}

void check_shapes(const plan::TrialRequest& request) {
  REQUIRE(LoadedModelForwardBackwardSession::shapes_suffice(request.model, request.training));
  const json shapes = facts(request, trial::RealOrShapeOnlyTensorMode::shapes_only);
  const json values = facts(request, trial::RealOrShapeOnlyTensorMode::with_values);
  REQUIRE(shapes["ops"].size() == values["ops"].size());
  for (size_t i = 0; i < values["ops"].size(); ++i) CHECK(shapes["ops"][i] == values["ops"][i]);
  CHECK(shapes == values);
}

TEST_CASE("shapes alone give the same facts of decoders as a real forward") {
  const Place place;
  for (const json& config : configs())
    for (const char* dtype : {"float32", "bfloat16"}) {
      const std::string type = config["model_type"];
      CAPTURE(type);
      CAPTURE(dtype);
      check_shapes(place.request(config, dtype, 2, 24));
    }
}

TEST_CASE("shapes alone give the same facts of masks and eager attention and chunked losses") {
  const Place place;
  const json windowed = with(llama(), {{"model_type", "mistral"}, {"sliding_window", 8}});
  for (const char* dtype : {"float32", "bfloat16"}) {
    CAPTURE(dtype);
    check_shapes(place.request(windowed, dtype, 2, 24));
    for (const char* attention : {"sdpa", "eager"}) {
      CAPTURE(attention);
      plan::TrialRequest packed = place.request(llama(), dtype, 2, 24);
      packed.training.attention = attention;
      packed.training.pack = true;
      packed.training.loss_impl = "chunked=3";
      check_shapes(packed);
      plan::TrialRequest padded = place.request(windowed, dtype, 2, 24);
      padded.training.attention = attention;
      padded.training.padding = 0.25;
      check_shapes(padded);
    }
  }
}

TEST_CASE("shapes alone give the same facts of quantized weights and adapters") {
  const Place place;
  const json odd = with(llama(), {{"intermediate_size", 45}});  // quantization blocks at the end are partial
  for (const json& config : {llama(), odd, with(llama(), {{"model_type", "phi3"}, {"pad_token_id", nullptr}})})
    for (const std::string load_in : {"4bit", "4bit-single", "8bit", ""})
      for (const std::string lora : {"", "r=4", "r=4,dropout=0.1"}) {
        CAPTURE(load_in);
        CAPTURE(lora);
        plan::TrialRequest request = place.request(config, "bfloat16", 2, 24);
        request.training.load_in = load_in;
        request.training.lora = lora;
        if (load_in.empty() || !lora.empty()) check_shapes(request);
      }
}

TEST_CASE("facts of an adapter file come from its header") {
  const Place place;
  plan::TrialRequest request = place.request(llama(), "float32", 2, 24);
  const std::filesystem::path folder = place.path / "adapter";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "adapter_config.json")
      << json{{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"target_modules", {"q_proj"}}};
  std::vector<safetensors::TensorNameDtypeAndShape> specs;
  for (int i = 0; i < 2; ++i) {
    const std::string path = "base_model.model.model.layers." + std::to_string(i) + ".self_attn.q_proj.lora_";
    specs.push_back({path + "A.weight", safetensors::Dtype::f32, {4, 32}});
    specs.push_back({path + "B.weight", safetensors::Dtype::f32, {64, 4}});
  }
  safetensors::Header header;
  header.entries = safetensors::lay_out(specs);
  std::ofstream(folder / "adapter_model.safetensors", std::ios::binary)
      << safetensors::print_header(header) << std::string(safetensors::data_bytes_of(header.entries), '\0');
  request.training.lora = folder.string();
  check_shapes(request);
}

TEST_CASE("facts of a model with a billion parameters at a long sequence need none of its memory") {
  const Place place;
  const json config = with(llama(), {{"vocab_size", 128256},
                                     {"hidden_size", 2048},
                                     {"intermediate_size", 8192},
                                     {"num_hidden_layers", 16},
                                     {"num_attention_heads", 32},
                                     {"num_key_value_heads", 8},
                                     {"head_dim", 64}});
  const std::unique_ptr<device::Device> device = device::make_device("cpu");
  for (const std::string load_in : {"", "4bit", "8bit"})
    for (const std::string lora : {"", "r=16"}) {
      if (!load_in.empty() && lora.empty()) continue;
      CAPTURE(load_in);
      CAPTURE(lora);
      plan::TrialRequest request = place.request(config, "bfloat16", 2, 4096);
      request.training.load_in = load_in;
      request.training.lora = lora;
      device->reset_peak();
      const int64_t before = device->memory().allocated;
      const json known = facts(request, trial::RealOrShapeOnlyTensorMode::shapes_only);
      if (load_in.empty() && lora.empty()) CHECK(known["parameters"] == 1235814400);
      CHECK(device->memory().peak_allocated - before < int64_t{256} << 20);  // the weights take 2.3 GiB, packed 0.6 GiB
    }
}

TEST_CASE("given input files and autocast and CUDA require a real forward") {
  const Place place;
  plan::TrialRequest request = place.request(llama(), "", 2, 24);
  request.model.inputs_file = "x.safetensors";
  CHECK_FALSE(LoadedModelForwardBackwardSession::shapes_suffice(request.model, request.training));
  request = place.request(llama(), "", 2, 24);
  request.training.autocast = "bfloat16";
  CHECK_FALSE(LoadedModelForwardBackwardSession::shapes_suffice(request.model, request.training));
  request = place.request(llama(), "", 2, 24);
  request.training.device = "cuda";
  CHECK_FALSE(LoadedModelForwardBackwardSession::shapes_suffice(request.model, request.training));
}

// Forward and backward of convolutions, norms, pools and ops that LibTorch has meta kernels for in Python only.
TEST_CASE("operators on the meta device have the shapes that they have with values") {
  step::take_missing_shapes_from_cpu_kernels();
  using at::Tensor;
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&, const Tensor&)>>> operators = {
      {"conv2d", [](const Tensor& x, const Tensor& w) { return at::conv2d(x, w); }},
      {"stride, padding, dilation",
       [](const Tensor& x, const Tensor& w) {
         return at::conv2d(x, w, {}, at::IntArrayRef({2, 1}), at::IntArrayRef({1, 2}), at::IntArrayRef({1, 2}));
       }},
      {"groups",
       [](const Tensor& x, const Tensor& w) {
         return at::conv2d(x, w.narrow(1, 0, 1), {}, at::IntArrayRef({1}), at::IntArrayRef({0}), at::IntArrayRef({1}),
                           4);
       }},
      {"conv1d",
       [](const Tensor& x, const Tensor& w) {
         return at::conv1d(x.flatten(2), w.select(3, 0), {}, at::IntArrayRef({3}), at::IntArrayRef({1}));
       }},
      {"conv_transpose2d",
       [](const Tensor& x, const Tensor& w) {
         return at::conv_transpose2d(x, w.transpose(0, 1), {}, at::IntArrayRef({2}), at::IntArrayRef({1}),
                                     at::IntArrayRef({1}));
       }},
      {"channels_last",
       [](const Tensor& x, const Tensor& w) { return at::conv2d(x.contiguous(at::MemoryFormat::ChannelsLast), w); }},
      {"batch_norm",
       [](const Tensor& x, const Tensor&) { return at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false); }},
      {"where of a permuted tensor",
       [](const Tensor& x, const Tensor&) {
         return at::where(at::ones({8, 9}, x.options().dtype(at::kBool)), x.permute({0, 1, 3, 2}), 0.0);
       }},
      {"relu", [](const Tensor& x, const Tensor&) { return at::relu(x); }},
      {"hardswish", [](const Tensor& x, const Tensor&) { return at::hardswish(x); }},
      {"hardtanh", [](const Tensor& x, const Tensor&) { return at::hardtanh(x); }},
      {"mse_loss", [](const Tensor& x, const Tensor&) { return at::mse_loss(x, at::zeros_like(x)); }},
      {"roll",
       [](const Tensor& x, const Tensor&) {
         return at::roll(x, {1, 2}, {2, 3});
       }},
      {"adaptive_avg_pool2d",
       [](const Tensor& x, const Tensor&) {
         return at::adaptive_avg_pool2d(x, {3, 2});
       }},
      {"grid_sampler",
       [](const Tensor& x, const Tensor&) {
         return at::grid_sampler(x, at::zeros({x.size(0), 5, 6, 2}, x.options()), 0, 0, false);
       }},
      {"abs into a result that is resized",
       [](const Tensor& x, const Tensor&) {
         Tensor out = at::empty({0}, x.options());
         at::abs_out(out, x.detach());
         return x * out;
       }},
  };
  for (const auto& one : operators) {
    CAPTURE(one.first);
    std::vector<std::vector<int64_t>> shapes[2];
    for (const bool on_meta : {false, true}) {
      const auto options = at::TensorOptions(on_meta ? at::kMeta : at::kCPU).dtype(at::kFloat);
      const Tensor x = at::zeros({2, 4, 9, 8}, options).requires_grad_(),
                   w = at::zeros({4, 4, 3, 2}, options).requires_grad_();
      const Tensor out = one.second(x, w);
      out.sum().backward();
      for (const Tensor& tensor : {out, x.grad(), w.grad()})
        if (tensor.defined()) {
          CHECK(tensor.is_meta() == on_meta);
          shapes[on_meta].push_back(tensor.sizes().vec());
          shapes[on_meta].push_back(tensor.strides().vec());
        }
    }
    CHECK(shapes[0] == shapes[1]);
  }
}

TEST_CASE("operators whose shape depends on values have none on the meta device") {
  step::take_missing_shapes_from_cpu_kernels();
  CHECK_THROWS_AS(at::nonzero(at::zeros({3}, at::TensorOptions(at::kMeta))), c10::Error);
  CHECK_THROWS_AS(at::masked_select(at::zeros({3}, at::TensorOptions(at::kMeta)),
                                    at::zeros({3}, at::TensorOptions(at::kMeta).dtype(at::kBool))),
                  c10::Error);
}

}  // namespace
}  // namespace memtune::tests::shapes_test
