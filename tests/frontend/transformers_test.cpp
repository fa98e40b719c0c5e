// Tests which decoders of a config.json are refused, and where weights come from. tests/models/check_transformers.py
// compares the bits with Python.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <unordered_set>

#include "core/base/error.h"
#include "core/model/frontend/front_end.h"
#include "core/model/frontend/inputs.h"
#include "core/model/frontend/requested_input_specs_and_tensors.h"
#include "core/model/frontend/transformers/transformers_front_end.h"
#include "core/model/frontend/transformers/weights.h"
#include "core/model/program/embeddings.h"
#include "core/model/safetensors/layout.h"
#include "tests/support/run_program.h"
namespace memtune::frontend::transformers_test {
namespace {

const char* const kConfig = R"({"model_type": "mistral", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
  "hidden_act": "silu", "sliding_window": 8})";

struct Place : test::ScratchFolder {
  Place() { std::ofstream(path / "config.json") << kConfig; }
  ModelSourceAndLoweringOptions source(int64_t seed = 0) const {
    ModelSourceAndLoweringOptions result;
    result.model.path = (path / "config.json").string();
    result.seed = seed;
    return result;
  }
  void write_config(int layers) const {
    std::string config = kConfig;
    config.replace(config.find("\"num_hidden_layers\": 2"), 22, "\"num_hidden_layers\": " + std::to_string(layers));
    std::ofstream(path / "config.json") << config;
  }
  // Writes one tensor of zeros.
  void write_weights(const std::string& name, std::vector<int64_t> shape) const {
    write_weights({{name, safetensors::Dtype::f32, std::move(shape)}});
  }
  void write_weights(const std::vector<safetensors::TensorNameDtypeAndShape>& specs,
                     const std::string& file = "model.safetensors") const {
    safetensors::Header header;
    header.entries = safetensors::lay_out(specs);
    std::ofstream(path / file, std::ios::binary)
        << safetensors::print_header(header) << std::string(safetensors::data_bytes_of(header.entries), '\0');
  }
};

at::Tensor parameter(const program::Program& program, const std::string& name) {
  for (const auto& [known, tensor] : program.state.parameters)
    if (known == name) return tensor;
  return {};
}

TEST_CASE("a model of embeddings has no head, so adapters take its last linear layer") {
  const Place place;
  ModelSourceAndLoweringOptions source = place.source();
  source.lora = "r=2";
  const char* const last = "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight";
  CHECK(parameter(lower(source), last).defined());
  source.head = ModelOutputHeadKind::embedding;
  const program::Program program = lower(source);
  CHECK(parameter(program, last).defined());
  CHECK_FALSE(parameter(program, "lm_head.weight").defined());
  CHECK(program::input_names(program) == std::vector<std::string>{"input_ids"});
  source.pack = true;
  CHECK_THROWS_WITH_AS(
      lower(source), "--pack is for losses of tokens; --loss reward and embedding take a text in each row", UsageError);
}

TEST_CASE("a reward model gets its score beside the weights of a language model") {
  const Place place;
  ModelSourceAndLoweringOptions source = place.source();
  source.head = ModelOutputHeadKind::score;
  const program::Program program = lower(source);
  CHECK(parameter(program, "score.weight").sizes() == at::IntArrayRef{1, 16});
  CHECK_FALSE(parameter(program, "lm_head.weight").defined());
}

TEST_CASE("weights are drawn from the seed if no file holds them") {
  const Place place;
  const char* const name = "model.layers.1.mlp.up_proj.weight";
  const at::Tensor once = parameter(lower(place.source(1)), name);
  REQUIRE(once.defined());
  CHECK(once.sizes() == at::IntArrayRef{24, 16});
  CHECK(at::equal(once, parameter(lower(place.source(1)), name)));
  CHECK_FALSE(at::equal(once, parameter(lower(place.source(2)), name)));
  CHECK(once.std().item<double>() == doctest::Approx(0.02).epsilon(0.2));
  CHECK(at::equal(parameter(lower(place.source(1)), "model.norm.weight"), at::ones({16})));
}

// 18 layers have more parameters than stay on the device while the next layers are made.
TEST_CASE("weights in host memory have the values of those on the device") {
  const Place place;
  place.write_config(18);
  for (const char* const load_in : {"", "4bit", "8bit"}) {
    ModelSourceAndLoweringOptions source = place.source();
    source.load_in = load_in;
    source.lora = "r=2";
    const program::Program plain = lower(source);
    source.weights_on_host = true;
    int on_device = 0;
    for (const auto& [name, parameter] : TransformersFrontEnd().lower(source).state.parameters)
      on_device += parameter.storage().nbytes() > 0 ? 1 : 0;
    CHECK(on_device < 30);  // of more than 160
    const program::Program moved = lower(source);
    REQUIRE(moved.state.host_weights);
    REQUIRE(plain.state.parameters.size() == moved.state.parameters.size());
    for (size_t i = 0; i < plain.state.parameters.size(); ++i) {
      const at::Tensor& parameter = moved.state.parameters[i].second;
      CHECK(parameter.storage().nbytes() == 0);
      if (i % 2 == 0) moved.state.host_weights->restore(parameter);
      CHECK(at::equal(plain.state.parameters[i].second, moved.state.host_weights->take(parameter)));
    }
  }
}

TEST_CASE("an adapter's file may have weights of the model that wait in host memory") {
  const Place place;
  place.write_config(18);
  std::ofstream(place.path / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 2, "target_modules": ["up_proj"]})";
  const std::string saved = "base_model.model.model.layers.";
  std::vector<safetensors::TensorNameDtypeAndShape> specs = {
      {saved + "0.mlp.up_proj.base_layer.weight", safetensors::Dtype::f32, {24, 16}}};
  for (int i = 0; i < 18; ++i) {
    specs.push_back({saved + std::to_string(i) + ".mlp.up_proj.lora_A.weight", safetensors::Dtype::f32, {2, 16}});
    specs.push_back({saved + std::to_string(i) + ".mlp.up_proj.lora_B.weight", safetensors::Dtype::f32, {24, 2}});
  }
  place.write_weights(specs, "adapter_model.safetensors");
  ModelSourceAndLoweringOptions source = place.source();
  source.lora = place.path.string();
  source.weights_on_host = true;
  const program::Program program = lower(source);
  for (const int layer : {0, 1}) {
    const std::string name = "model.layers." + std::to_string(layer) + ".mlp.up_proj.weight";
    const at::Tensor weight = program.state.host_weights->take(parameter(program, name));
    CHECK((weight.abs().max().item<double>() == 0) == (layer == 0));
  }
}

TEST_CASE("weights have the requested dtype and modules have the names of transformers") {
  const Place place;
  ModelSourceAndLoweringOptions source = place.source();
  source.dtype = "bfloat16";
  const program::Program program = lower(source);
  for (const auto& [name, tensor] : program.state.parameters) CHECK((tensor.scalar_type() == at::kBFloat16));
  bool found = false;
  for (const auto& region : program.regions)
    found |= region.path == "model.layers.1.self_attn" && region.type == "MistralAttention";
  CHECK(found);
}

TEST_CASE("embedding tables are the parameters that embedding ops read") {
  const Place place;
  const program::Program program = lower(place.source());
  const at::Tensor table = parameter(program, "model.embed_tokens.weight");
  CHECK((program::embedding_tables(program) == std::unordered_set<const void*>{table.unsafeGetTensorImpl()}));
}

TEST_CASE("without a dtype in the config the first floating weight by name decides") {
  const Place place;
  std::vector<safetensors::TensorNameDtypeAndShape> specs = {{"a counter", safetensors::Dtype::i64, {2}}};
  for (const auto& [name, tensor] : lower(place.source()).state.parameters)
    specs.push_back(
        {name, name == "lm_head.weight" ? safetensors::Dtype::f16 : safetensors::Dtype::bf16, tensor.sizes().vec()});
  place.write_weights(specs);
  const auto type_of = [](const ModelSourceAndLoweringOptions& source) {
    return parameter(lower(source), "model.norm.weight").scalar_type();
  };
  CHECK((type_of(place.source()) == at::kHalf));
  ModelSourceAndLoweringOptions source = place.source();
  source.dtype = "float32";
  CHECK((type_of(source) == at::kFloat));
}

TEST_CASE("the error names a weight that is missing or has another shape") {
  const Place place;
  place.write_weights("other", {2});
  CHECK_THROWS_WITH_AS(lower(place.source()),
                       "the model's safetensors files have no tensor 'model.embed_tokens.weight'", UsageError);
  place.write_weights("model.embed_tokens.weight", {50, 15});
  CHECK_THROWS_WITH_AS(
      lower(place.source()),
      "'model.embed_tokens.weight' of the model's safetensors files is [50, 15], by its config [50, 16]", UsageError);
}

TEST_CASE("weights saved without the head and experts saved one by one are found") {
  const Place place;
  place.write_weights("embed_tokens.weight", {50, 15});
  CHECK_THROWS_WITH_AS(
      lower(place.source()),
      "'model.embed_tokens.weight' of the model's safetensors files is [50, 15], by its config [50, 16]", UsageError);
  model::TransformersConfig config;
  config.family = *model::find_transformers_family("mixtral");
  const auto stacked = [&](const char* name) {
    place.write_weights(name, {3, 4});
    TransformersWeightProvider weights({place.path / "model.safetensors"}, config, at::TensorOptions(at::kFloat), 0);
    return weights.make_stacked("model.layers.0.mlp.experts.down_proj", {1, 3, 4}, {"w2"});
  };
  CHECK(stacked("model.layers.0.mlp.experts.0.w2.weight").sizes() == at::IntArrayRef{1, 3, 4});
  CHECK(stacked("model.layers.0.block_sparse_moe.experts.0.w2.weight").sizes() == at::IntArrayRef{1, 3, 4});
  CHECK_THROWS_WITH_AS(stacked("model.layers.0.mlp.experts.1.w2.weight"),
                       "the model's safetensors files have no tensor 'model.layers.0.mlp.experts.0.w2.weight'",
                       UsageError);
}

TEST_CASE("a sequence that fills the sliding window is refused") {
  const Place place;
  const program::Program model = lower(place.source());
  plan::TrialRequest request;
  request.model.path = place.source().model.path;
  request.model.inputs = {{"input_ids", "int64", {2, 7}, 50}};
  CHECK(make_batch(request, LossKind::causal_lm, model, c10::kCPU).tokens == 14);
  request.model.inputs[0].shape[1] = 8;
  CHECK_THROWS_WITH_AS(make_batch(request, LossKind::causal_lm, model, c10::kCPU),
                       "sequences of 8 are not supported: beyond 7 the model's sliding window, positions or their "
                       "scaling end; say --seq",
                       UsageError);
}

// Only CUDA has the kernel, but its arguments can be checked on a CPU.
ModelSourceAndLoweringOptions flash(const Place& place) {
  ModelSourceAndLoweringOptions source = place.source();
  source.attention = "flash-varlen";
  source.dtype = "bfloat16";
  source.pack = true;
  source.sequence = 12;
  return source;
}

plan::TrialRequest packed_request(const ModelSourceAndLoweringOptions& source) {
  plan::TrialRequest request;
  request.model.path = source.model.path;
  request.training.pack = source.pack;
  request.model.inputs = {{"input_ids", "int64", {3, 12}, 50}};
  return request;
}

const program::Op* op_of(const program::Program& program, const std::string& name) {
  for (const program::Op& op : program.body.ops)
    if (op.name == name) return &op;
  return nullptr;
}

TEST_CASE("flash-varlen gets the document ends and the longest length and a window without the query") {
  const Place place;
  const program::Program model = lower(flash(place));
  const TrainingBatch batch = make_batch(packed_request(flash(place)), LossKind::causal_lm, model, c10::kCPU);
  REQUIRE(batch.specs.size() == 3);
  CHECK(plan::to_string(batch.specs[2]) == "cu_seq_lens_q:int32[4]");
  CHECK(at::equal(batch.tensors[2], at::tensor({0, 12, 24, 36}, at::kInt)));
  CHECK(batch.samples == 3);
  const program::Op* op = op_of(model, "aten::_flash_attention_forward");
  REQUIRE(op);
  const auto argument = [&](size_t i) { return model.constants.at(op->inputs.at(i)); };
  CHECK(op->inputs[3] == model.body.inputs[2]);
  CHECK(op->inputs[4] == model.body.inputs[2]);
  CHECK(argument(5).toInt() == 12);
  CHECK(argument(7).toDouble() == 0);
  CHECK(argument(8).toBool());
  CHECK(argument(10).toDouble() == doctest::Approx(std::sqrt(1.0 / 8)));
  CHECK(argument(11).toInt() == 7);
  CHECK(op->random);
  CHECK((op->op_class == plan::OpClass::attention));
  CHECK(op_of(model, "aten::cumsum") == nullptr);  // there is no mask
}

TEST_CASE("configurations that flash-varlen has no kernel for are refused") {
  const Place place;
  const auto check = [&](const ModelSourceAndLoweringOptions& source, const char* what) {
    CHECK_THROWS_WITH_AS(lower(source), doctest::Contains(what), UsageError);
  };
  ModelSourceAndLoweringOptions source = flash(place);
  source.pack = false;
  check(source, "--attention flash-varlen goes with --pack");
  source = flash(place);
  source.dtype = "float32";
  check(source, "--attention flash-varlen takes bfloat16 or float16, not float32: say --dtype bf16");
  source.autocast = "float16";
  CHECK_NOTHROW(lower(source));
  const std::string odd = std::string(kConfig).replace(std::string(kConfig).find("16,"), 3, "24,");
  std::ofstream(place.path / "config.json") << odd;
  check(flash(place), "--attention flash-varlen takes heads of 8, 16 and so on to 256 numbers, not of 12");
}

// On CUDA, autocast computes a softmax without a dtype in float32; on a CPU it does not, so that no bits differ here.
TEST_CASE("a softmax that keeps its dtype in transformers names that dtype under autocast") {
  const Place place;
  std::ofstream(place.path / "config.json")
      << R"({"model_type": "gpt_oss", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "head_dim": 8,
            "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
            "num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": ["full_attention"],
            "max_position_embeddings": 64, "rope_theta": 10000.0, "hidden_act": "silu"})";
  ModelSourceAndLoweringOptions source = place.source();
  source.dtype = source.autocast = "bfloat16";
  source.attention = "eager";
  const program::Program program = lower(source);
  std::vector<at::ScalarType> dtypes;
  for (const program::Op& op : program.body.ops) {
    if (op.name != "aten::softmax") continue;
    const c10::IValue& dtype = program.constants[op.inputs[2]];
    dtypes.push_back(dtype.isInt() ? dtype.toScalarType() : at::ScalarType::Undefined);
  }
  CHECK((dtypes == std::vector<at::ScalarType>{at::kBFloat16, at::kBFloat16}));  // attention, router
}

TEST_CASE("padded rows have a mask and labels that are ignored at padding") {
  const Place place;
  ModelSourceAndLoweringOptions source = place.source();
  source.padded = true;
  const program::Program model = lower(source);
  plan::TrialRequest request = packed_request(source);
  request.training.padding = 0.25;
  CHECK(has_padding(request.model, request.training));
  CHECK(choose_target(request.model, request.training, LossKind::causal_lm, model.inputs) == "labels");
  const TrainingBatch batch = make_batch(request, LossKind::causal_lm, model, c10::kCPU);
  REQUIRE(batch.specs.size() == 3);
  CHECK(plan::to_string(batch.specs[1]) == "attention_mask:int64[3,12]");
  CHECK(batch.specs[2].name == "labels");
  const at::Tensor there = batch.tensors[1] == 1;
  CHECK(there.sum().item<int64_t>() == 11 + 9 + 7);
  CHECK(at::equal(batch.tensors[2], at::where(there, batch.tensors[0], -100)));
  source.pack = true;
  CHECK_THROWS_WITH_AS(lower(source), doctest::Contains("--pack and an attention_mask exclude each other"), UsageError);
}

TEST_CASE("a mask without padding is refused because attention without a mask differs") {
  const Place place;
  ModelSourceAndLoweringOptions source = place.source();
  source.padded = true;
  const program::Program model = lower(source);
  safetensors::Header header;
  const std::vector<safetensors::TensorNameDtypeAndShape> specs = {{"attention_mask", safetensors::Dtype::i64, {1, 2}},
                                                                   {"input_ids", safetensors::Dtype::i64, {1, 2}}};
  header.entries = safetensors::lay_out(specs);
  const std::vector<int64_t> numbers = {1, 1, 3, 4};
  std::ofstream(place.path / "inputs.safetensors", std::ios::binary)
      << safetensors::print_header(header)
      << std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t));
  plan::TrialRequest request;
  request.model.path = source.model.path;
  request.model.inputs_file = (place.path / "inputs.safetensors").string();
  CHECK(has_padding(request.model, request.training));
  CHECK_THROWS_WITH_AS(make_batch(request, LossKind::causal_lm, model, c10::kCPU),
                       "input 'attention_mask' has no padding, it is 1 everywhere: leave it out", UsageError);
}

}  // namespace
}  // namespace memtune::frontend::transformers_test
