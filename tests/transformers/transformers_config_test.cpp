// A config.json with missing, contradictory or unsupported fields must be refused in one line before a process starts.
// Old field names must have the same meaning as new ones.
#include "core/model/transformers/transformers_config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace memtune::transformers_config_test {

using namespace memtune;
using namespace memtune::model;
using nlohmann::json;

namespace {

json example(const char* model_type = "llama") {
  return {{"model_type", model_type},  {"vocab_size", 100},        {"hidden_size", 64},
          {"intermediate_size", 96},   {"num_hidden_layers", 2},   {"rms_norm_eps", 1e-5},
          {"num_attention_heads", 4},  {"num_key_value_heads", 2}, {"hidden_act", "silu"},
          {"pad_token_id", nullptr},   {"rope_theta", 500000.0},   {"torch_dtype", "bfloat16"},
          {"sliding_window", nullptr}, {"head_dim", nullptr},      {"use_cache", true}};
}

json gpt2() {
  return {{"model_type", "gpt2"},
          {"vocab_size", 100},
          {"n_embd", 64},
          {"n_layer", 2},
          {"n_head", 4},
          {"n_positions", 32},
          {"n_inner", nullptr},
          {"layer_norm_epsilon", 1e-5},
          {"activation_function", "gelu_new"}};
}

TransformersConfig read_text(const json& config) {
  return parse_transformers_config("config.json", config.dump(), /*text_only=*/true);
}

TransformersConfig read(const json& config) { return parse_transformers_config("config.json", config.dump()); }

// A null stays a null, unlike in merge_patch.
json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

json without(json config, const char* field) {
  config.erase(field);
  return config;
}

json mixture() {
  return with(example("qwen2_moe"), {{"num_experts", 6},
                                     {"num_experts_per_tok", 2},
                                     {"moe_intermediate_size", 24},
                                     {"shared_expert_intermediate_size", 40},
                                     {"num_hidden_layers", 4}});
}

void check_refused(const json& config, const std::string& message) {
  CHECK_THROWS_WITH_AS(read(config), ("config.json" + message).c_str(), UsageError);
}

}  // namespace

TEST_CASE("every field of a config is read") {
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
  CHECK(config.rotary.at(0).theta == 500000.0);
  CHECK(config.rotary.at(0).width == 16);
  CHECK(config.turned_by == std::vector<int>{0, 0});
  CHECK(config.longest == 0);
  CHECK(config.dtype == "bfloat16");
}

TEST_CASE("a field that a config leaves out has the default of the family's class") {
  const TransformersConfig gemma =
      read(without(without(with(example("gemma"), {{"num_key_value_heads", 4}}), "pad_token_id"), "head_dim"));
  CHECK(gemma.tied);
  CHECK(gemma.head_width == 256);
  CHECK(gemma.padding == 0);
  CHECK_FALSE(read(with(example("gemma"), {{"num_key_value_heads", 4}})).padding.has_value());  // null is none
  CHECK(read(without(example(), "num_key_value_heads")).kv_heads == 4);
  CHECK(read(without(example(), "rope_theta")).rotary.at(0).theta == 10000.0);
  CHECK(read(without(example(), "torch_dtype")).dtype == "");
  CHECK(read(with(example(), {{"torch_dtype", nullptr}})).dtype == "");
  for (const char* dtype : {"auto", "torch.bfloat16"})  // transformers refuses them, too
    CHECK_THROWS_WITH_AS(read(with(example(), {{"torch_dtype", dtype}})),
                         doctest::Contains(("config.json.dtype: unknown dtype '" + std::string(dtype)).c_str()),
                         UsageError);
  check_refused(without(example("qwen2"), "num_key_value_heads"),
                ".num_key_value_heads: 32 does not divide num_attention_heads, 4");
}

// The text_config of a multimodal folder as a file of its own has only what differs from the class.
TEST_CASE("a text_config has what its class fills in") {
  const TransformersConfig config = read({{"model_type", "gemma3_text"},
                                          {"hidden_size", 64},
                                          {"intermediate_size", 128},
                                          {"num_hidden_layers", 8},
                                          {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}});
  CHECK(config.vocabulary == 262208);
  CHECK(config.heads == 8);
  CHECK(config.kv_heads == 4);
  CHECK(config.head_width == 256);
  CHECK(config.activation == "gelu_pytorch_tanh");
  CHECK(config.epsilon == 1e-6);
  CHECK(config.attention_scale == doctest::Approx(1.0 / 16));
  CHECK(config.windows == std::vector<int64_t>{4096, 4096, 4096, 4096, 4096, 0, 4096, 4096});
  REQUIRE(config.rotary.size() == 2);
  const RotaryConfig& full = config.rotary.at(config.turned_by.at(5));
  CHECK(full.theta == 1000000.0);
  CHECK(config.rotary.at(config.turned_by.at(0)).theta == 10000.0);
  CHECK(read({{"model_type", "gemma3_text"},
              {"hidden_size", 64},
              {"intermediate_size", 128},
              {"num_hidden_layers", 1},
              {"vocab_size", 99}})
            .vocabulary == 99);
}

TEST_CASE("the text model of several modalities has what its own class fills in, and the whole model's dtype") {
  const json llava = {{"model_type", "llava"},
                      {"torch_dtype", "float16"},
                      {"pad_token_id", 7},
                      {"text_config", {{"model_type", "llama"}, {"vocab_size", 99}}}};
  const TransformersConfig config = read_text(llava);
  CHECK(config.hidden == 4096);
  CHECK(config.kv_heads == 32);
  CHECK(config.vocabulary == 99);
  CHECK(config.dtype == "float16");
  CHECK(config.padding == 7);
  CHECK(config.notes == std::vector<std::string>{"measured as text: llama without the other modalities"});
  const auto of_mistral = [&](const json& changes) {
    return read_text({{"model_type", "mistral3"}, {"text_config", with({{"model_type", "mistral"}}, changes)}}).windows;
  };
  CHECK(of_mistral(json::object()).at(0) == 4096);
  CHECK(of_mistral({{"sliding_window", nullptr}}).at(0) == 0);
  CHECK(read_text(example()).notes.empty());
  CHECK_THROWS_WITH_AS(read({{"model_type", "llama"}, {"vocab_size", 99}}), doctest::Contains("is missing"),
                       UsageError);
  CHECK_THROWS_WITH_AS(read_text({{"model_type", "clip"}, {"text_config", {{"model_type", "clip_text_model"}}}}),
                       doctest::Contains("config.json.text_config: unknown model_type 'clip_text_model'"), UsageError);
}

TEST_CASE("the text of older multimodal files has its fields at the top") {
  const json scaling = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
  const json flat = {{"model_type", "qwen2_vl"},    {"vocab_size", 99},         {"hidden_size", 64},
                     {"num_hidden_layers", 2},      {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                     {"vision_config", {{"a", 1}}}, {"rope_theta", 500000.0},   {"tie_word_embeddings", true},
                     {"rope_scaling", scaling}};
  const TransformersConfig config = read_text(flat);
  CHECK(config.family.model_type == "qwen2_vl_text");
  CHECK(config.hidden == 64);
  CHECK(config.mlp == 29568);
  CHECK(config.tied);
  REQUIRE(config.rotary.size() == 1);
  CHECK(config.rotary[0].theta == 500000.0);
  CHECK(config.rotary[0].kind == RotaryScalingKind::plain);
  CHECK(config.notes.size() == 1);
  CHECK_THROWS_WITH_AS(read(flat), doctest::Contains("--text-only measures its text model, qwen2_vl_text"), UsageError);
  CHECK_THROWS_WITH_AS(read_text({{"model_type", "clip"}}), doctest::Contains("unknown model_type 'clip'"), UsageError);
  CHECK_THROWS_WITH_AS(read(with(example(), {{"rope_scaling", scaling}})),
                       doctest::Contains("'mrope' is not supported"), UsageError);
}

TEST_CASE("text skips the layers that attend to images") {
  const json mllama =
      with(without(example("mllama_text_model"), "rope_theta"), {{"num_hidden_layers", 5}, {"pad_token_id", 1}});
  CHECK(read(mllama).image_layers == std::vector<bool>{false, false, false, true, false});
  const json first = with(mllama, {{"cross_attention_layers", {0, 7}}});
  CHECK(read(first).image_layers == std::vector<bool>{true, false, false, false, false});
  CHECK(read(mllama).notes.size() == 1);
  CHECK(read(example()).image_layers.empty());
  check_refused(with(mllama, {{"tie_word_embeddings", true}}),
                ".tie_word_embeddings: the embedding has more rows than the head");
}

TEST_CASE("the rotary embedding has the same meaning in old and in new files") {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  const TransformersConfig old = read(with(example(), {{"rope_scaling", scaling}}));
  const TransformersConfig now =
      read(with(without(example(), "rope_theta"), {{"rope_parameters", with(scaling, {{"rope_theta", 500000.0}})}}));
  for (const TransformersConfig& config : {old, now}) {
    CHECK(config.rotary.at(0).kind == RotaryScalingKind::llama3);
    CHECK(config.rotary.at(0).theta == 500000.0);
    CHECK(config.rotary.at(0).factor == 8.0);
    CHECK(config.rotary.at(0).high_frequency == 4.0);
    CHECK(config.rotary.at(0).trained_positions == 8192);
  }
}

TEST_CASE("a sliding window counts only in families that use it") {
  const json window = {{"sliding_window", 32}};
  const TransformersConfig everywhere = read(with(example("mistral"), window));
  CHECK(everywhere.windows == std::vector<int64_t>(static_cast<size_t>(everywhere.layers), 32));
  CHECK(everywhere.longest == 0);
  CHECK(read(with(example("llama"), window)).windows.front() == 0);
  CHECK(read(with(example("llama"), window)).longest == 0);
  CHECK(read(with(example("qwen2"), with(window, {{"num_key_value_heads", 2}}))).longest == 0);
  CHECK(read(with(example("qwen2"), with(window, {{"use_sliding_window", true}}))).longest == 31);
}

TEST_CASE("layers with sliding windows have their own rotary table or are the only ones with rotary") {
  json gemma = with(example("gemma3_text"), {{"num_hidden_layers", 7},
                                             {"hidden_activation", "gelu_pytorch_tanh"},
                                             {"query_pre_attn_scalar", 16},
                                             {"rope_local_base_freq", 20000.0},
                                             {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  const TransformersConfig old = read(gemma);
  gemma = without(without(without(gemma, "rope_scaling"), "rope_theta"), "rope_local_base_freq");
  const json tables = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 500000.0}}},
                       {"sliding_attention", {{"rope_theta", 20000.0}}}};
  for (const TransformersConfig& config : {old, read(with(gemma, {{"rope_parameters", tables}}))}) {
    CHECK(config.turned_by == std::vector<int>{1, 1, 1, 1, 1, 0, 1});
    REQUIRE(config.rotary.size() == 2);
    CHECK(config.rotary[0].theta == 500000.0);
    CHECK(config.rotary[0].factor == 8.0);
    CHECK(config.rotary[1].theta == 20000.0);
    CHECK(config.rotary[1].kind == RotaryScalingKind::plain);
  }
  json cohere = with(example("cohere2"), {{"layer_norm_eps", 1e-5}, {"logit_scale", 0.25}, {"sliding_window", 8}});
  cohere["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(read(cohere).turned_by == std::vector<int>{-1, 0});
  CHECK(read(with(cohere, {{"sliding_window", nullptr}})).turned_by == std::vector<int>{-1, -1});
}

TEST_CASE("scaled rotary embeddings give their length and the scale of cosine and sine") {
  const auto scaled = [](const json& scaling) {
    return read(with(example("phi3"), {{"rope_scaling", scaling}, {"max_position_embeddings", 64}})).rotary.at(0);
  };
  CHECK(scaled({{"type", "dynamic"}, {"factor", 2.0}}).longest == 64);
  const RotaryConfig yarn = scaled({{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}});
  CHECK(yarn.trained_positions == 16);
  CHECK(yarn.scale == doctest::Approx(1.1386294));
  CHECK(yarn.longest == 0);
  json longrope = {{"type", "longrope"}, {"original_max_position_embeddings", 16}, {"short_factor", json::array()}};
  for (int i = 0; i < 8; ++i) longrope["short_factor"].push_back(1.5);
  CHECK(scaled(longrope).longest == 16);
  CHECK(scaled(longrope).factors == std::vector<double>(8, 1.5));
  CHECK(scaled(longrope).scale == doctest::Approx(std::sqrt(1.5)));
  longrope["short_factor"].push_back(1.5);
  CHECK_THROWS_WITH_AS(scaled(longrope), "config.json.rope_scaling.short_factor must have 8 numbers, not 9",
                       UsageError);
}

TEST_CASE("a family's own rotary fields are read") {
  const json hunyuan = with(example("hunyuan_v1_dense"), {{"max_position_embeddings", 4096},
                                                          {"rope_scaling", {{"type", "dynamic"}, {"alpha", 16.0}}}});
  const TransformersConfig widened = read(hunyuan);
  CHECK(widened.rotary[0].kind == RotaryScalingKind::plain);
  CHECK(widened.rotary[0].theta == doctest::Approx(500000.0 * std::pow(16.0, 16.0 / 14.0)));
  CHECK(widened.longest == 4096);
  const TransformersConfig olmo3 = read(with(example("olmo3"), {{"sliding_window", 8}, {"num_hidden_layers", 4}}));
  CHECK(olmo3.turned_by == std::vector<int>{1, 1, 1, 0});
  CHECK(olmo3.rotary[1].theta == 500000.0);
  const json exaone = with(example("exaone4"), {{"num_hidden_layers", 4}});
  CHECK(read(with(exaone, {{"sliding_window", 8}})).turned_by == std::vector<int>{0, 0, 0, -1});
  CHECK(read(exaone).turned_by == std::vector<int>{0, 0, 0, 0});
}

TEST_CASE("experts are in the layers that the config selects") {
  const TransformersConfig config = read(with(mixture(), {{"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}}));
  REQUIRE(config.experts.has_value());
  CHECK(config.experts->layers == std::vector<bool>{false, true, false, false});
  CHECK(config.experts->count == 6);
  CHECK(config.experts->chosen == 2);
  CHECK(config.experts->width == 24);
  CHECK(config.experts->shared_width == 40);
  CHECK_FALSE(config.experts->normed);
  CHECK(read(with(mixture(), {{"norm_topk_prob", true}})).experts->normed);
  CHECK_FALSE(read(example()).experts.has_value());
}

TEST_CASE("GPT-2 has its own field names and a table of positions") {
  const TransformersConfig config = read(gpt2());
  CHECK(config.hidden == 64);
  CHECK(config.mlp == 256);
  CHECK(config.positions == 32);
  CHECK(config.longest == 32);
  CHECK(config.rotary.empty());
  CHECK(config.turned_by == std::vector<int>{-1, -1});
  CHECK(config.attention_dropout == 0.1);
  CHECK(config.embedding_dropout == 0.1);
  CHECK(read(with(gpt2(), {{"n_inner", 48}, {"resid_pdrop", 0.0}})).mlp == 48);
}

TEST_CASE("a missing field of a config is named") {
  for (const char* field : {"n_embd", "n_layer", "n_head", "n_positions", "layer_norm_epsilon", "activation_function"})
    check_refused(without(gpt2(), field), "." + std::string(field) + " is missing");
  for (const char* field :
       {"num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size"})
    check_refused(without(mixture(), field), "." + std::string(field) + " is missing");

  for (const char* field : {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "rms_norm_eps", "hidden_act"})
    check_refused(without(example(), field), "." + std::string(field) + " is missing");
  check_refused(with(example(), {{"hidden_size", nullptr}}), ".hidden_size is missing");
  check_refused(example("granite"), ".embedding_multiplier is missing");
}

TEST_CASE("an error in a contradictory config names the field") {
  check_refused(with(example(), {{"num_attention_heads", 3}}),
                ".num_attention_heads: 3 does not divide hidden_size, 64, and there is no head_dim");
  check_refused(with(example(), {{"num_key_value_heads", 3}}),
                ".num_key_value_heads: 3 does not divide num_attention_heads, 4");
  check_refused(with(example(), {{"pad_token_id", 100}}), ".pad_token_id: 100 is no token: vocab_size is 100");
  check_refused(with(example(), {{"head_dim", 5}}), ".head_dim: the rotary part of a head must be even, not 5");
  check_refused(with(example(), {{"layer_types", {"full_attention"}}}),
                ".layer_types: must have num_hidden_layers names, 2");
  check_refused(with(example(), {{"rope_parameters", {{"rope_theta", 1.0}}}}),
                ".rope_theta: contradicts config.json.rope_parameters.rope_theta");
  check_refused(with(example(), {{"hidden_size", 1.5}}), ".hidden_size must be an integer from 1 to 16777216, not 1.5");
}

json grouped() {
  return with(example("deepseek_v3"), {{"n_routed_experts", 8},
                                       {"num_experts_per_tok", 3},
                                       {"moe_intermediate_size", 24},
                                       {"n_shared_experts", 2},
                                       {"n_group", 4},
                                       {"topk_group", 2},
                                       {"first_k_dense_replace", 1},
                                       {"num_key_value_heads", 4},
                                       {"q_lora_rank", nullptr},
                                       {"kv_lora_rank", 16},
                                       {"qk_nope_head_dim", 12},
                                       {"qk_rope_head_dim", 8},
                                       {"v_head_dim", 10}});
}

TEST_CASE("latent attention and groups of experts have their own sizes") {
  const TransformersConfig config = read(grouped());
  REQUIRE(config.latent.has_value());
  CHECK(config.latent->query_rank == 0);
  CHECK(read(with(grouped(), {{"q_lora_rank", 24}})).latent->query_rank == 24);
  CHECK(config.head_width == 20);
  CHECK(config.value_width() == 10);
  CHECK(config.rotary.at(0).width == 8);
  CHECK(config.experts->shared_width == 48);
  CHECK(config.experts->layers == std::vector<bool>{false, true});
  CHECK(config.experts->scale == 2.5);
  const json yarn = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"mscale_all_dim", 1.0}, {"original_max_position_embeddings", 32}};
  const double grown = 0.1 * std::log(4.0) + 1;
  CHECK(read(with(grouped(), {{"rope_parameters", yarn}})).attention_scale ==
        doctest::Approx(std::pow(20.0, -0.5) * grown * grown));
  check_refused(with(grouped(), {{"n_group", 3}}), ".n_group: 3 groups of at least 2 of 8 experts cannot be made");
  check_refused(with(grouped(), {{"n_group", 8}}), ".n_group: 8 groups of at least 2 of 8 experts cannot be made");
  check_refused(with(grouped(), {{"topk_group", 1}}), ".topk_group: its groups have fewer experts than 3");
  check_refused(with(grouped(), {{"num_key_value_heads", 2}}), ".num_key_value_heads: must be num_attention_heads, 4");
}

TEST_CASE("layers of experts are a range in ernie, and windows begin late in dots") {
  const json ernie = with(example("ernie4_5_moe"), {{"moe_num_experts", 6},
                                                    {"moe_k", 2},
                                                    {"moe_intermediate_size", 24},
                                                    {"moe_num_shared_experts", 0},
                                                    {"num_hidden_layers", 4}});
  CHECK(read(ernie).experts->layers == std::vector<bool>{false, true, true, true});
  CHECK(read(ernie).experts->shared_width == 0);
  CHECK(read(with(ernie, {{"moe_layer_end_index", 2}, {"moe_layer_start_index", 2}})).experts->layers ==
        std::vector<bool>{false, false, true, false});
  const json dots = with(grouped(), {{"model_type", "dots1"}, {"num_hidden_layers", 3}, {"sliding_window", 64}});
  CHECK(read(dots).windows == std::vector<int64_t>{0, 0, 0});
  CHECK(read(with(dots, {{"max_window_layers", 1}})).windows == std::vector<int64_t>{0, 64, 64});
}

TEST_CASE("queries of ministral3 grow by fields of its rotary embedding") {
  const json scaling = {
      {"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}, {"original_max_position_embeddings", 64}};
  const json ministral = without(example("ministral3"), "rope_theta");
  CHECK(read(with(ministral, {{"rope_parameters", scaling}})).query_growth == 0.1);
  CHECK(read(with(ministral, {{"rope_parameters", scaling}})).query_period == 64);
  CHECK(read(with(ministral, {{"max_position_embeddings", 262144}})).query_period == 16384);  // the class's
  check_refused(with(ministral, {{"rope_parameters", without(scaling, "llama_4_scaling_beta")}}),
                ".rope_parameters.llama_4_scaling_beta is missing");
}

TEST_CASE("llama4 has experts, rotary embeddings and chunks in some layers") {
  const json llama4 = with(example("llama4_text"),
                           {{"num_hidden_layers", 4}, {"intermediate_size_mlp", 80}, {"interleave_moe_layer_step", 2}});
  const TransformersConfig config = read(llama4);
  CHECK(config.mlp == 80);
  CHECK(config.experts->width == 96);
  CHECK(config.experts->layers == std::vector<bool>{false, true, false, true});
  CHECK(config.turned_by == std::vector<int>{0, 0, 0, -1});
  CHECK(config.longest == 0);
  CHECK(config.query_temperature == 0.1);
  CHECK_FALSE(read(with(llama4, {{"attn_temperature_tuning", false}})).query_temperature.has_value());
  CHECK(read(with(llama4, {{"moe_layers", {0}}})).experts->layers == std::vector<bool>{true, false, false, false});
  const json kinds = {"chunked_attention", "chunked_attention", "chunked_attention", "full_attention"};
  const json chunked = with(llama4, {{"layer_types", kinds}, {"no_rope_layers", {1, 1, 0, 1}}});
  CHECK(read(chunked).longest == 8191);
  CHECK(read(with(chunked, {{"attention_chunk_size", 64}})).longest == 63);
  CHECK(read(chunked).turned_by == std::vector<int>{0, 0, -1, 0});
  check_refused(with(example(), {{"layer_types", {"chunked_attention", "full_attention"}}}),
                ".layer_types: 'chunked_attention' is not supported");
}

TEST_CASE("lfm2 has convolutions and derives the width of its MLP") {
  const json lfm2 = with(example("lfm2"), {{"norm_eps", 1e-5}, {"layer_types", {"conv", "full_attention"}}});
  CHECK(read(lfm2).convolution->layers == std::vector<bool>{true, false});
  CHECK(read(lfm2).convolution->width == 3);
  CHECK(read(lfm2).mlp == 256);
  CHECK(read(with(lfm2, {{"block_multiple_of", 30}})).mlp == 90);
  CHECK(read(with(lfm2, {{"block_multiple_of", 30}, {"block_ffn_dim_multiplier", 1.5}})).mlp == 120);
  CHECK(read(with(lfm2, {{"block_ffn_dim_multiplier", nullptr}})).mlp == 64);
  CHECK(read(with(lfm2, {{"block_auto_adjust_ff_dim", false}, {"block_ff_dim", 70}})).mlp == 70);
  CHECK(read(with(without(lfm2, "layer_types"), {{"full_attn_idxs", {0}}})).convolution->layers ==
        std::vector<bool>{false, true});
  CHECK(read(lfm2).tied);
  CHECK_FALSE(read(with(lfm2, {{"tie_embedding", false}})).tied);
  CHECK_THROWS_WITH_AS(check_attention(read(lfm2), "sdpa", true, false),
                       "--pack: lfm2 has convolutions, which would reach over the ends of documents", UsageError);
  CHECK_THROWS_WITH_AS(check_attention(read(lfm2), "sdpa", false, true),
                       "--padding: lfm2 has convolutions, which would reach over the ends of rows", UsageError);
  CHECK_NOTHROW(check_attention(read(lfm2), "sdpa", false, false));
}

TEST_CASE("gated delta nets have their own heads and replace attention in some layers") {
  const json hybrid = with(example("qwen3_5_text"), {{"num_hidden_layers", 8}});
  const DeltaNetConfig net = read(hybrid).delta_net.value();
  CHECK(net.layers == std::vector<bool>{true, true, true, false, true, true, true, false});
  CHECK(net.key_heads == 16);
  CHECK(net.value_heads == 32);
  CHECK(net.key_width == 128);
  CHECK(net.kernel == 4);
  CHECK_FALSE(net.joined);
  CHECK(read(hybrid).head_width == 256);
  CHECK(read(hybrid).rotary.front().width == 64);
  CHECK(read(hybrid).notes.size() == 1);
  CHECK(read(with(hybrid, {{"full_attention_interval", 2}})).delta_net->layers.at(1) == false);
  const json kinds = {"full_attention", "linear_attention"};
  const json two = with(hybrid, {{"num_hidden_layers", 2}, {"layer_types", kinds}});
  CHECK(read(two).delta_net->layers == std::vector<bool>{false, true});
  check_refused(with(two, {{"layer_types", {"mamba", "full_attention"}}}), ".layer_types: 'mamba' is not supported");
  check_refused(with(example(), {{"layer_types", kinds}}), ".layer_types: 'linear_attention' is not supported");
  check_refused(with(two, {{"linear_num_key_heads", 5}}),
                ".linear_num_key_heads: 5 does not divide linear_num_value_heads, 32");
  CHECK_THROWS_WITH_AS(check_attention(read(two), "sdpa", true, false),
                       doctest::Contains("--pack: qwen3_5_text has convolutions"), UsageError);
  const json next = with(mixture(), {{"model_type", "qwen3_next"}});
  CHECK(read(next).delta_net->joined);
  CHECK(read(next).experts->normed);
  const TransformersConfig text =
      read_text({{"model_type", "qwen3_5_moe"}, {"text_config", {{"model_type", "qwen3_5_moe_text"}}}});
  CHECK(text.experts->count == 256);
  CHECK(text.delta_net->layers.size() == 40);
}

TEST_CASE("gemma4 has wide heads, shared keys and an input of its own in some layers") {
  const json gemma =
      with(example("gemma4_text"),
           {{"num_hidden_layers", 4},
            {"head_dim", 8},
            {"hidden_activation", "gelu_pytorch_tanh"},
            {"sliding_window", 32},
            {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "sliding_attention"}},
            {"num_kv_shared_layers", 2},
            {"use_double_wide_mlp", true},
            {"rope_theta", nullptr}});
  const TransformersConfig config = read(gemma);
  CHECK(config.windows == std::vector<int64_t>{32, 0, 32, 0});  // the last layer never has a window
  REQUIRE(config.layer_configs.size() == 4);
  const PerLayerConfigOverrides &windowed = config.layer_configs[0], &full = config.layer_configs[3];
  CHECK(windowed.head_width == 8);
  CHECK(windowed.mlp == 96);
  CHECK_FALSE(windowed.reuses_keys);
  CHECK(full.head_width == 512);
  CHECK(full.kv_heads == 2);
  CHECK(full.mlp == 192);
  CHECK(full.reuses_keys);
  CHECK(config.layer_inputs->width == 256);
  CHECK(config.tokens() == 100);
  CHECK(config.attention_scale == 1);
  CHECK(config.rotary.at(0).kind == RotaryScalingKind::proportional);
  CHECK(config.rotary.at(0).width == 512);
  CHECK(config.rotary.at(0).turned_pairs == 64);
  CHECK(config.rotary.at(1).width == 8);
  CHECK_FALSE(config.experts.has_value());
  CHECK(read(with(gemma, {{"vocab_size_per_layer_input", 60}})).tokens() == 60);
  CHECK_FALSE(read(with(gemma, {{"hidden_size_per_layer_input", 0}})).layer_inputs.has_value());
  const PerLayerConfigOverrides one =
      read(with(gemma, {{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}})).layer_configs[1];
  CHECK(one.values_are_keys);
  CHECK(one.kv_heads == 1);
  const auto by_layer = [&](const json& layers) { return with(gemma, {{"per_layer_config", layers}}); };
  const json wide = {{"1", {{"head_dim", 16}}}, {"3", {{"head_dim", 16}}}};
  CHECK(read(by_layer(wide)).layer_configs[3].head_width == 16);
  CHECK(read(by_layer({{"full_attention", {{"num_key_value_heads", 4}}}})).layer_configs[1].kv_heads == 4);
  check_refused(by_layer({{"1", {{"head_dim", 16}}}}),
                ".per_layer_config: must give layers of 'full_attention' equal heads");
  check_refused(by_layer({{"1", {{"hidden_size", 16}}}}),
                ".per_layer_config.1.hidden_size: is not supported, head_dim and num_key_value_heads are");
  check_refused(by_layer({{"7", json::object()}}), ".per_layer_config.7: is no layer");
  check_refused(with(gemma, {{"num_kv_shared_layers", 3}}),
                ".num_kv_shared_layers: no layer before them computes the keys of 'full_attention'");
  check_refused(with(gemma, {{"num_kv_shared_layers", 4}}),
                ".num_kv_shared_layers: must be less than num_hidden_layers, 4");
  CHECK_NOTHROW(read(with(gemma, {{"use_bidirectional_attention", "vision"}})));
  CHECK_THROWS_AS(read(with(gemma, {{"use_bidirectional_attention", "all"}})), UsageError);
  CHECK_THROWS_AS(read(with(example("gemma3_text"), {{"use_bidirectional_attention", "vision"}})), UsageError);
  const json mixed = with(
      gemma, {{"enable_moe_block", true}, {"num_experts", 8}, {"top_k_experts", 2}, {"moe_intermediate_size", 24}});
  CHECK(read(mixed).experts->chosen == 2);
}

TEST_CASE("gemma3n has several residual streams and MLPs of different widths") {
  const json gemma = with(example("gemma3n_text"), {{"num_hidden_layers", 3},
                                                    {"head_dim", 8},
                                                    {"hidden_activation", "gelu_pytorch_tanh"},
                                                    {"intermediate_size", {96, 80, 64}},
                                                    {"num_kv_shared_layers", 1},
                                                    {"activation_sparsity_pattern", {0.95, 0.0, 0.0}}});
  const TransformersConfig config = read(gemma);
  REQUIRE(config.layer_configs.size() == 3);
  CHECK(config.layer_configs[1].mlp == 80);
  CHECK(config.layer_configs[0].sparsity == 0.95);
  CHECK(config.layer_configs[2].reuses_keys);
  CHECK(config.layer_configs[2].head_width == 8);
  CHECK(config.altup->streams == 4);
  CHECK(config.altup->clip == 120.0);
  CHECK(config.altup->laurel_rank == 64);
  CHECK(config.logit_cap == 30.0);
  CHECK_FALSE(read(with(gemma, {{"altup_coef_clip", nullptr}})).altup->clip.has_value());
  const json deep = with(without(gemma, "activation_sparsity_pattern"),
                         {{"num_hidden_layers", 12}, {"intermediate_size", 96}, {"num_kv_shared_layers", 2}});
  CHECK(read(deep).layer_configs[9].sparsity == 0.95);
  CHECK(read(deep).layer_configs[10].sparsity == 0);
  check_refused(with(gemma, {{"intermediate_size", {96, 80}}}),
                ".intermediate_size: must have num_hidden_layers numbers, 3");
  check_refused(with(gemma, {{"activation_sparsity_pattern", {0.5}}}),
                ".activation_sparsity_pattern: must have num_hidden_layers numbers, 3");
  check_refused(with(gemma, {{"activation_sparsity_pattern", {0.5, 1.0, 0.0}}}),
                ".activation_sparsity_pattern: is out of range in layer 1");
  check_refused(with(gemma, {{"altup_correct_scale", false}}),
                ".altup_correct_scale: outputs without a scale are not supported");
  check_refused(with(gemma, {{"altup_coef_clip", 0.0}}), ".altup_coef_clip: must be more than 0");
  check_refused(with(gemma, {{"hidden_size_per_layer_input", 0}}), ".hidden_size_per_layer_input: must be at least 1");
  CHECK_THROWS_WITH_AS(check_load_in(config, "4bit"),
                       "--load-in 4bit: gemma3n_text clamps weights of linear layers in each step, which packed "
                       "weights do not allow",
                       UsageError);
  CHECK_NOTHROW(check_load_in(config, ""));
  CHECK_NOTHROW(check_load_in(read(example()), "4bit"));
  CHECK_THROWS_WITH_AS(read(with(gemma, {{"num_kv_shared_layers", 3}})), doctest::Contains("num_kv_shared_layers"),
                       UsageError);
}

TEST_CASE("mamba2 has a state space with heads of its own, and no MLP") {
  const json mamba = {{"model_type", "mamba2"}, {"vocab_size", 100}, {"hidden_size", 64},
                      {"num_hidden_layers", 2}, {"num_heads", 16},   {"head_dim", 8}};
  const TransformersConfig config = read(mamba);
  CHECK(config.heads == 16);
  CHECK(config.kv_heads == 16);
  CHECK(config.rotary.empty());
  CHECK(config.turned_by == std::vector<int>{-1, -1});
  CHECK(config.state_space->state == 128);
  CHECK(config.state_space->chunk == 256);
  CHECK(config.state_space->most_step == std::numeric_limits<double>::infinity());
  CHECK(config.notes.size() == 1);
  const json endless = {{"__float__", "Infinity"}};
  CHECK(read(with(mamba, {{"time_step_limit", {0.5, endless}}})).state_space->least_step == 0.5);
  CHECK(read(with(mamba, {{"time_step_limit", {0.0, 0.25}}})).state_space->most_step == 0.25);
  const std::string bare = R"({"time_step_limit": [0.0, Infinity], "note": "\"Infinity\\", )";
  CHECK(parse_transformers_config("c", bare + mamba.dump().substr(1)).state_space->most_step ==
        std::numeric_limits<double>::infinity());
  check_refused(with(mamba, {{"time_step_limit", {0.0, "x"}}}),
                ".time_step_limit: must be two numbers, of which the second may be Infinity");
  check_refused(with(mamba, {{"time_step_limit", {0.0}}}), ".time_step_limit: must be two numbers");
  check_refused(with(mamba, {{"n_groups", 5}}), ".n_groups: 5 does not divide num_heads, 16");
  check_refused(with(mamba, {{"expand", 3}}), ".expand: times hidden_size must be num_heads times head_dim, 128");
  CHECK_THROWS_WITH_AS(check_attention(config, "sdpa", false, true), doctest::Contains("--padding: mamba2"),
                       UsageError);
}

TEST_CASE("the forms of OPT that are not built are refused") {
  const json opt =
      with(example("opt"), {{"ffn_dim", 96}, {"activation_function", "relu"}, {"max_position_embeddings", 64}});
  CHECK(read(opt).positions == 64);
  CHECK(read(opt).longest == 64);
  check_refused(with(opt, {{"layerdrop", 0.1}}), ".layerdrop: layers that are left out at random are not supported");
  check_refused(with(opt, {{"do_layer_norm_before", false}}),
                ".do_layer_norm_before: norms after the blocks are not supported");
  check_refused(with(opt, {{"layer_norm_elementwise_affine", false}}),
                ".layer_norm_elementwise_affine: norms without weights are not supported");
  check_refused(with(opt, {{"word_embed_proj_dim", 32}}),
                ".word_embed_proj_dim: embeddings of another width than hidden_size are not supported");
  check_refused(with(opt, {{"_remove_final_layer_norm", true}}),
                "._remove_final_layer_norm: a model without a last norm is not supported");
}

TEST_CASE("groups of experts in deepseek_v2 are for one method alone") {
  const json v2 = with(grouped(), {{"model_type", "deepseek_v2"}});
  CHECK(read(v2).experts->groups == 1);
  CHECK(read(with(v2, {{"topk_method", "group_limited_greedy"}})).experts->groups == 4);
  check_refused(with(v2, {{"topk_method", "noaux_tc"}}),
                ".topk_method: 'noaux_tc' is not supported, greedy and group_limited_greedy are");
}

TEST_CASE("an activation with parameters is for its own family") {
  CHECK(read(with(example("apertus"), {{"hidden_act", "xielu"}})).activation == "xielu");
  check_refused(with(example("nemotron"), {{"norm_eps", 1e-5}, {"hidden_act", "xielu"}}),
                ".hidden_act: unknown activation 'xielu'; did you mean 'silu'? Known: silu, gelu, gelu_pytorch_tanh, "
                "gelu_new, relu, relu2");
}

TEST_CASE("a model with attention sinks is measured with eager attention alone") {
  const json sinks = with(example("gpt_oss"), {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  CHECK(read(sinks).attention == "eager");
  CHECK(read(sinks).windows == std::vector<int64_t>{0, 0});
  CHECK(read(with(sinks, {{"sliding_window", 64}})).windows == std::vector<int64_t>{64, 0});
  const char* const why = "--attention sdpa: gpt_oss is written with eager attention alone";
  CHECK_THROWS_WITH_AS(check_attention(read(sinks), "sdpa", false, false), why, UsageError);
  CHECK_THROWS_WITH_AS(read(with(sinks, {{"attn_implementation", "sdpa"}})), why, UsageError);
  CHECK_NOTHROW(check_attention(read(example()), "sdpa", true, true));
}

TEST_CASE("contradictory settings of experts and heads and dropout are refused") {
  check_refused(with(mixture(), {{"num_experts_per_tok", 7}}), ".num_experts_per_tok: 7 of 6 experts cannot be chosen");
  check_refused(with(gpt2(), {{"n_head", 3}}), ".n_head: 3 does not divide n_embd, 64, and there is no head_dim");
  check_refused(with(gpt2(), {{"resid_pdrop", 1.0}}), ".resid_pdrop: must be from 0 to below 1");
  check_refused(with(example(), {{"rope_parameters", 1}}), ".rope_parameters must be an object, not 1");
}

TEST_CASE("a setting of a config that is not supported is refused by name") {
  check_refused(
      with(example(), {{"rope_scaling", {{"type", "spun"}, {"factor", 4.0}}}}),
      ".rope_scaling.rope_type: 'spun' is not supported; default, linear, llama3, dynamic, yarn and longrope are");
  check_refused(with(example(), {{"hidden_act", "x"}}),
                ".hidden_act: unknown activation 'x'. Known: silu, gelu, gelu_pytorch_tanh, gelu_new, relu, relu2");
  check_refused(with(example(), {{"attn_implementation", "flash_attention_2"}}),
                ".attn_implementation: 'flash_attention_2' is not supported, sdpa and eager are");
  check_refused(with(example(), {{"partial_rotary_factor", 0.5}}),
                ".partial_rotary_factor: rotary embeddings on a part of a head are not supported for llama");
  check_refused(with(mixture(), {{"router_jitter_noise", 0.1}}),
                ".router_jitter_noise: noise on the input of the router is not supported");
  check_refused(with(mixture(), {{"experts_implementation", "eager"}}),
                ".experts_implementation: 'eager' is not supported, grouped_mm is");
  check_refused(with(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}),
                ".scale_attn_by_inverse_layer_idx: attention whose scale follows the layer is not supported");
  check_refused(with(example("olmoe"), {{"num_experts", 6}, {"num_experts_per_tok", 2}, {"clip_qkv", 8.0}}),
                ".clip_qkv: clipped queries, keys and values are not supported");
  check_refused(with(example("hunyuan_v1_dense"), {{"rope_scaling", {{"type", "dynamic"}, {"alpha", -1.0}}}}),
                ".rope_scaling.alpha must be more than 0");
  check_refused(with(gpt2(), {{"add_cross_attention", true}}),
                ".add_cross_attention: attention to an encoder is not supported");
}

TEST_CASE("a class that is no language model is refused with what to do") {
  for (const std::string name : {"LlamaForTokenClassification", "LlamaForQuestionAnswering"})
    check_refused(with(example(), {{"architectures", {name}}}),
                  ".architectures: " + name +
                      " is no language model. memtune convert makes a model.pt2 of it, with its loss; or measure its "
                      "training command: memtune sweep -- COMMAND");
  for (const char* name : {"LlamaForCausalLM", "GPT2LMHeadModel", "Gemma3ForConditionalGeneration", "OwnForCausalLM"})
    CHECK_NOTHROW(read(with(example(), {{"architectures", {name}}})));
  for (const json& none : {json::array(), json()}) CHECK_NOTHROW(read(with(example(), {{"architectures", none}})));
}

TEST_CASE("a class of rows has a classifier, and a class without a head none") {
  const auto of = [](const json& changes) {
    return read(with(with(example(), {{"architectures", {"LlamaForSequenceClassification"}}}), changes)).classifier;
  };
  const json none = json::object();
  CHECK((of(none)->labels == 2 && !of(none)->regression));
  CHECK((of({{"num_labels", 3}})->labels == 3 && !of({{"num_labels", 3}})->regression));
  const json one = {{"id2label", {{"0", "LABEL_0"}}}};
  CHECK((of(one)->labels == 1 && of(one)->regression));
  CHECK(of({{"problem_type", "regression"}})->regression);
  CHECK_FALSE(of(with(one, {{"problem_type", "single_label_classification"}}))->regression);
  check_refused(with(example(), {{"architectures", {"LlamaForSequenceClassification"}},
                                 {"problem_type", "multi_label_classification"}}),
                ".problem_type: 'multi_label_classification' is not supported, regression and "
                "single_label_classification are. Measure the training command: memtune sweep -- COMMAND");
  check_refused(with(example("granite"), {{"architectures", {"GraniteForSequenceClassification"}}}),
                ".architectures: GraniteForSequenceClassification is no language model. memtune convert makes a "
                "model.pt2 of it, with its loss; or measure its training command: memtune sweep -- COMMAND");
  const auto headless = [](const char* name) { return read(with(example(), {{"architectures", {name}}})).headless(); };
  CHECK(headless("LlamaModel"));
  CHECK_FALSE((headless("LlamaForCausalLM") || headless("GPT2LMHeadModel")));
  CHECK_FALSE(read(with(example(), {{"architectures", {"LlamaModel"}}})).classifier);
}

TEST_CASE("a reward model has one score, if transformers has its class") {
  const TransformersConfig scored = with_score(read(with(example(), {{"architectures", {"LlamaForCausalLM"}}})));
  CHECK((scored.classifier->labels == 1 && scored.classifier->regression));
  json granite = with(example("granite"), {{"attention_multiplier", 0.1},
                                           {"embedding_multiplier", 1.0},
                                           {"residual_multiplier", 1.0},
                                           {"logits_scaling", 1.0}});
  CHECK_THROWS_WITH_AS(with_score(read(granite)),
                       "--loss reward: transformers has no GraniteForSequenceClassification; measure the training "
                       "command: memtune sweep -- COMMAND",
                       UsageError);
}

TEST_CASE("the token that fills rows is known also where its embedding is trained") {
  CHECK_FALSE(read(example()).row_padding);
  CHECK(read(with(example(), {{"pad_token_id", 7}})).row_padding == 7);
  CHECK((read(with(gpt2(), {{"pad_token_id", 7}})).row_padding == 7 &&
         !read(with(gpt2(), {{"pad_token_id", 7}})).padding));
}

TEST_CASE("weights that bitsandbytes has packed are measured in the same form") {
  const auto of = [](const json& how) { return read(with(example(), {{"quantization_config", how}})); };
  const json nf4 = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  CHECK(of(with(nf4, {{"bnb_4bit_use_double_quant", true}})).quantization == "4bit");
  CHECK(of(nf4).quantization == "4bit-single");
  CHECK(of({{"load_in_8bit", true}}).quantization == "8bit");
  CHECK(of(nf4).notes == std::vector<std::string>{"its weights are stored in 4 bits: measured with --load-in "
                                                  "4bit-single and random weights"});
  CHECK(of(with(nf4, {{"llm_int8_skip_modules", {"lm_head"}}})).notes.size() == 1);
  CHECK(of(with(nf4, {{"llm_int8_skip_modules", {"lm_head", "mlp"}}})).notes.size() == 2);
  CHECK(read(example()).quantization.empty());
  const auto refused = [](const json& how, const std::string& field, const std::string& why) {
    check_refused(with(example(), {{"quantization_config", how}}), ".quantization_config" + field + ": " + why);
  };
  refused(with(nf4, {{"bnb_4bit_quant_type", "fp4"}}), ".bnb_4bit_quant_type", "'fp4' is not supported, nf4 is");
  refused(with(nf4, {{"load_in_8bit", true}}), "", "must have one of load_in_4bit and load_in_8bit");
  for (const char* method : {"fp8", "mxfp4", "gptq", "awq"})
    refused({{"quant_method", method}}, "",
            "'" + std::string(method) +
                "' weights are not supported, those of bitsandbytes are. Give a folder with the weights in bf16, with "
                "--load-in 4bit for QLoRA, or measure the training command: memtune sweep -- COMMAND");
}

TEST_CASE("the router's auxiliary loss is left out with a note") {
  CHECK(read(mixture()).notes.empty());
  CHECK(read(with(mixture(), {{"output_router_logits", true}})).notes ==
        std::vector<std::string>{"output_router_logits: the router's auxiliary loss is not measured"});
  CHECK(read(with(example(), {{"output_router_logits", true}})).notes.empty());
}

TEST_CASE("an unknown model_type is refused with advice") {
  CHECK_THROWS_WITH_AS(read({{"model_type", "rwkv"}}),
                       doctest::Contains("unknown model_type 'rwkv'. Known: llama, mistral, "), UsageError);
  CHECK_THROWS_WITH_AS(read({{"model_type", "rwkv"}}), doctest::Contains("memtune convert makes"), UsageError);
  CHECK_THROWS_WITH_AS(read({{"model_type", "gemma3"}, {"text_config", {{"model_type", "gemma3_text"}}}}),
                       doctest::Contains("--text-only measures its text model, gemma3_text"), UsageError);
  CHECK_THROWS_WITH_AS(read({{"model_type", "lama"}}), doctest::Contains("did you mean 'llama'?"), UsageError);
}

TEST_CASE("text that is no JSON object is refused as a config") {
  CHECK_THROWS_WITH_AS(parse_transformers_config("c", "{"), "c is not JSON: line 1", UsageError);
  CHECK_THROWS_WITH_AS(parse_transformers_config("c", "[]"), "c must be an object", UsageError);
}

}  // namespace memtune::transformers_config_test
