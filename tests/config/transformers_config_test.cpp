// A config.json that leaves out, contradicts itself or asks for what is not built must be refused in one line before a
// process is started for it; what older files call otherwise must mean the same.
#include "core/config/transformers_config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/support/run_program.h"

using namespace memtune;
using namespace memtune::config;
using nlohmann::json;

namespace {

json example(const char* model_type = "llama") {
  return {{"model_type", model_type},  {"vocab_size", 100},        {"hidden_size", 64},
          {"intermediate_size", 96},   {"num_hidden_layers", 2},   {"rms_norm_eps", 1e-5},
          {"num_attention_heads", 4},  {"num_key_value_heads", 2}, {"hidden_act", "silu"},
          {"pad_token_id", nullptr},   {"rope_theta", 500000.0},   {"torch_dtype", "bfloat16"},
          {"sliding_window", nullptr}, {"head_dim", nullptr},      {"use_cache", true}};
}

TransformersConfig read(const json& config) { return parse_transformers_config("config.json", config.dump()); }

// Unlike merge_patch a null stays a null.
json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

json without(json config, const char* field) {
  config.erase(field);
  return config;
}

void check_refused(const json& config, const std::string& message) {
  CHECK_THROWS_WITH_AS(read(config), ("config.json" + message).c_str(), UsageError);
}

}  // namespace

TEST_CASE("a config is read, every field of it") {
  const TransformersConfig config = read(with(example(), {{"attention_bias", true}, {"tie_word_embeddings", true}}));
  CHECK(config.family.class_prefix == "Llama");
  CHECK(config.vocabulary == 100);
  CHECK(config.hidden == 64);
  CHECK(config.mlp == 96);
  CHECK(config.layers == 2);
  CHECK(config.heads == 4);
  CHECK(config.kv_heads == 2);
  CHECK(config.head_width == 16);
  CHECK_FALSE(config.padding.has_value());
  CHECK(config.tied);
  CHECK(config.query_bias);
  CHECK(config.output_bias);
  CHECK_FALSE(config.mlp_bias);
  CHECK(config.epsilon == 1e-5);
  CHECK(config.activation == "silu");
  CHECK(config.attention_scale == 0.25);
  CHECK(config.rotary.theta == 500000.0);
  CHECK(config.rotary.width == 16);
  CHECK(config.turns == std::vector<bool>{true, true});
  CHECK_FALSE(config.window.has_value());
  CHECK(config.dtype == "bfloat16");
}

TEST_CASE("what a config leaves out is what the family's class has") {
  const TransformersConfig gemma =
      read(without(without(with(example("gemma"), {{"num_key_value_heads", 4}}), "pad_token_id"), "head_dim"));
  CHECK(gemma.tied);
  CHECK(gemma.head_width == 256);
  CHECK(gemma.padding == 0);
  CHECK_FALSE(read(with(example("gemma"), {{"num_key_value_heads", 4}})).padding.has_value());  // null is none
  CHECK(read(without(example(), "num_key_value_heads")).kv_heads == 4);
  CHECK(read(without(example(), "rope_theta")).rotary.theta == 10000.0);
  CHECK(read(without(example(), "torch_dtype")).dtype == "float32");
  check_refused(without(example("qwen2"), "num_key_value_heads"),
                ".num_key_value_heads: 32 does not divide num_attention_heads, 4");
}

TEST_CASE("the rotary embedding has one meaning in old and in new files") {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  const TransformersConfig old = read(with(example(), {{"rope_scaling", scaling}}));
  const TransformersConfig now =
      read(with(without(example(), "rope_theta"), {{"rope_parameters", with(scaling, {{"rope_theta", 500000.0}})}}));
  for (const TransformersConfig& config : {old, now}) {
    CHECK(config.rotary.kind == RotaryKind::llama3);
    CHECK(config.rotary.theta == 500000.0);
    CHECK(config.rotary.factor == 8.0);
    CHECK(config.rotary.high_frequency == 4.0);
    CHECK(config.rotary.trained_positions == 8192);
  }
}

TEST_CASE("a window counts where the family uses it") {
  const json window = {{"sliding_window", 32}};
  CHECK(read(with(example("mistral"), window)).window == 32);
  CHECK_FALSE(read(with(example("llama"), window)).window.has_value());
  CHECK_FALSE(read(with(example("qwen2"), with(window, {{"num_key_value_heads", 2}}))).window.has_value());
  CHECK(read(with(example("qwen2"), with(window, {{"use_sliding_window", true}}))).window == 32);
}

TEST_CASE("a field that is missing is named") {
  for (const char* field : {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "rms_norm_eps", "hidden_act"})
    check_refused(without(example(), field), "." + std::string(field) + " is missing");
  check_refused(with(example(), {{"hidden_size", nullptr}}), ".hidden_size is missing");
  check_refused(example("granite"), ".embedding_multiplier is missing");
}

TEST_CASE("a config that contradicts itself is told where") {
  check_refused(with(example(), {{"num_attention_heads", 3}}),
                ".num_attention_heads: 3 does not divide hidden_size, 64, and there is no head_dim");
  check_refused(with(example(), {{"num_key_value_heads", 3}}),
                ".num_key_value_heads: 3 does not divide num_attention_heads, 4");
  check_refused(with(example(), {{"pad_token_id", 100}}), ".pad_token_id: 100 is no token: vocab_size is 100");
  check_refused(with(example(), {{"head_dim", 5}}), ".head_dim: the part of a head that turns must be even, not 5");
  check_refused(with(example(), {{"layer_types", {"full_attention"}}}),
                ".layer_types: must have num_hidden_layers names, 2");
  check_refused(with(example(), {{"rope_parameters", {{"rope_theta", 1.0}}}}),
                ".rope_theta: contradicts that of rope_parameters");
  check_refused(with(example(), {{"hidden_size", 1.5}}), ".hidden_size must be an integer from 1 to 16777216, not 1.5");
}

TEST_CASE("what is not built is refused by its name") {
  check_refused(with(example(), {{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}}),
                ".rope_scaling.rope_type: 'yarn' is not built; default, linear and llama3 are");
  check_refused(with(example(), {{"hidden_act", "x"}}),
                ".hidden_act: unknown activation 'x'. Known: silu, gelu, gelu_pytorch_tanh");
  check_refused(with(example(), {{"attn_implementation", "flash_attention_2"}}),
                ".attn_implementation: 'flash_attention_2' is not built, sdpa is");
  check_refused(with(example(), {{"quantization_config", {{"bits", 4}}}}),
                ".quantization_config: quantized weights are not built");
  check_refused(with(example(), {{"partial_rotary_factor", 0.5}}),
                ".partial_rotary_factor: heads that turn in part are not built for llama");
  check_refused(with(example("phi3"), {{"resid_pdrop", 0.1}}), ".resid_pdrop: dropout of the residuals is not built");
}

TEST_CASE("a model_type that is in no row is refused with what to do instead") {
  CHECK_THROWS_WITH_AS(read({{"model_type", "mamba"}}),
                       doctest::Contains("unknown model_type 'mamba'. Known: llama, mistral, "), UsageError);
  CHECK_THROWS_WITH_AS(read({{"model_type", "mamba"}}), doctest::Contains("torch.jit.trace"), UsageError);
  CHECK_THROWS_WITH_AS(read({{"model_type", "lama"}}), doctest::Contains("did you mean 'llama'?"), UsageError);
}

TEST_CASE("text that is no config is refused") {
  CHECK_THROWS_WITH_AS(parse_transformers_config("c", "{"), "c is not JSON: byte 2", UsageError);
  CHECK_THROWS_WITH_AS(parse_transformers_config("c", "[]"), "c must be an object", UsageError);
}

TEST_CASE("weights are one file, the shards of an index, or none") {
  const test::ScratchFolder place;
  const auto config = place.path / "config.json", index = place.path / "model.safetensors.index.json";
  CHECK(weight_files(config).empty());
  std::ofstream(index) << R"({"weight_map": {"a": "two", "b": "one", "c": "two"}})";
  std::ofstream(place.path / "two") << "x";
  CHECK_THROWS_WITH_AS(weight_files(config), "model.safetensors.index.json: there is no one, which has b", UsageError);
  std::ofstream(place.path / "one") << "x";
  CHECK(weight_files(config) == std::vector{place.path / "one", place.path / "two"});
  std::ofstream(index) << R"({"weight_map": {"a": "../elsewhere"}})";
  CHECK_THROWS_AS(weight_files(config), UsageError);
  std::ofstream(index) << "{}";
  CHECK_THROWS_WITH_AS(weight_files(config), "model.safetensors.index.json.weight_map is missing", UsageError);
  std::ofstream(place.path / "model.safetensors") << "x";
  CHECK(weight_files(config) == std::vector{place.path / "model.safetensors"});
}
