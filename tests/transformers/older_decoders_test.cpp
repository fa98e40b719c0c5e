// Fields that only the older decoders have: their forms, names and refusals.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::older_decoders_test {

using namespace memtune;
using namespace memtune::model;
using nlohmann::json;

namespace {

TransformersConfig read(const json& config) { return parse_transformers_config("config.json", config.dump()); }

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

void check_refused(const json& config, const std::string& message) {
  CHECK_THROWS_WITH_AS(read(config), ("config.json" + message).c_str(), UsageError);
}

void check_attention_refused(const json& config, const char* attention, bool packed, bool padded, const char* message) {
  CHECK_THROWS_WITH_AS(check_attention(read(config), attention, packed, padded), message, UsageError);
}

json named_by_gpt2(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 100}, {"n_embd", 64},      {"n_layer", 2}, {"n_head", 4},
          {"n_positions", 32},        {"n_ctx", 32},       {"n_inner", nullptr}};
}

json falcon() {
  return {{"model_type", "falcon"},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4}};
}

json gpt_neo() {
  return {{"model_type", "gpt_neo"}, {"vocab_size", 100},
          {"hidden_size", 64},       {"num_layers", 3},
          {"num_heads", 4},          {"max_position_embeddings", 32},
          {"window_size", 8},        {"attention_types", {{{"global", "local"}, 1}, {{"local"}, 1}}}};
}

json mpt() { return {{"model_type", "mpt"}, {"vocab_size", 100}, {"d_model", 64}, {"n_layers", 2}, {"n_heads", 4}}; }

json xglm() {
  return {{"model_type", "xglm"}, {"vocab_size", 100},    {"d_model", 64},
          {"num_layers", 2},      {"attention_heads", 4}, {"ffn_dim", 96}};
}

json bloom() {
  return {{"model_type", "bloom"}, {"vocab_size", 100}, {"hidden_size", 64}, {"n_layer", 2}, {"n_head", 4}};
}

json diffllama() {
  return {{"model_type", "diffllama"}, {"vocab_size", 100},        {"hidden_size", 64},
          {"intermediate_size", 96},   {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"hidden_act", "silu"},      {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5}};
}

}  // namespace

TEST_CASE("gpt_bigcode has one key for all queries, or one per query") {
  const json bigcode = named_by_gpt2("gpt_bigcode");
  CHECK(read(bigcode).kv_heads == 1);
  CHECK(read(with(bigcode, {{"multi_query", false}})).kv_heads == 4);
  CHECK(read(bigcode).mlp == 256);
  CHECK(read(with(bigcode, {{"n_inner", 96}})).mlp == 96);
  CHECK(read(bigcode).activation == "gelu_pytorch_tanh");
  CHECK(read(with(bigcode, {{"scale_attn_weights", false}})).attention_scale == 1);
  check_refused(with(bigcode, {{"add_cross_attention", true}}),
                ".add_cross_attention: attention to an encoder is not supported");
}

TEST_CASE("the forms of falcon have other norms, projections and dropout") {
  const TransformersConfig config = read(with(falcon(), {{"hidden_dropout", 0.1}, {"attention_dropout", 0.2}}));
  CHECK(config.family.projections == QkvLayout::joined_heads_with_one_key);
  CHECK(config.kv_heads == 1);
  CHECK(config.mlp == 256);
  CHECK(config.activation == "gelu");
  CHECK(config.parallel);
  CHECK(config.family.shared_norm);
  CHECK(config.sum_dropout == 0.1);
  CHECK(config.attention_output_dropout == 0);
  CHECK(config.mlp_output_dropout == 0);

  const json grouped = with(falcon(), {{"new_decoder_architecture", true}, {"num_kv_heads", 2}});
  CHECK(read(grouped).family.projections == QkvLayout::joined_by_group);
  CHECK(read(grouped).kv_heads == 2);
  CHECK_FALSE(read(grouped).family.shared_norm);
  CHECK(read(grouped).family.modules.before_mlp == "ln_mlp");
  CHECK(read(with(grouped, {{"num_ln_in_parallel_attn", 1}})).family.shared_norm);

  const TransformersConfig serial = read(
      with(falcon(),
           {{"parallel_attn", false}, {"multi_query", false}, {"hidden_dropout", 0.1}, {"attention_dropout", 0.2}}));
  CHECK(serial.family.projections == QkvLayout::joined_by_head_and_normed);
  CHECK(serial.kv_heads == 4);
  CHECK(serial.sum_dropout == 0);
  CHECK(serial.attention_output_dropout == 0.2);
  CHECK(serial.mlp_output_dropout == 0.1);
}

TEST_CASE("what falcon does not have is refused by name") {
  const json newer = with(falcon(), {{"new_decoder_architecture", true}});
  check_refused(with(falcon(), {{"alibi", true}}), ".alibi: linear biases of scores are not supported for falcon");
  check_refused(with(newer, {{"parallel_attn", false}}), ".parallel_attn: must be true with new_decoder_architecture");
  check_refused(with(newer, {{"num_kv_heads", 3}}), ".num_kv_heads: 3 does not divide num_attention_heads, 4");
  check_refused(with(falcon(), {{"num_ln_in_parallel_attn", 2}}),
                ".num_ln_in_parallel_attn: must be 1 without new_decoder_architecture");
  check_attention_refused(falcon(), "eager", false, false,
                          "--attention eager: falcon is written with sdpa attention alone");
  check_attention_refused(falcon(), "sdpa", true, false, "--pack: the masks of falcon do not separate documents");
  CHECK_NOTHROW(check_attention(read(falcon()), "sdpa", false, true));
}

TEST_CASE("gptj and codegen rotate a part of each head by a table of n_positions rows") {
  for (const char* name : {"gptj", "codegen"}) {
    const json config = with(named_by_gpt2(name), {{"rotary_dim", 8}});
    CHECK(read(config).positions == 32);
    CHECK(read(config).longest == 32);
    CHECK(read(config).table_width == 8);
    CHECK(read(config).rotary.empty());
    CHECK(read(config).head_bias);
    CHECK(read(config).attention == "eager");
    check_refused(with(config, {{"rotary_dim", 7}}), ".rotary_dim: must be even and at most the width of a head, 16");
    check_refused(with(config, {{"rotary_dim", 18}}), ".rotary_dim: must be even and at most the width of a head, 16");
    check_attention_refused(
        config, "sdpa", false, false,
        ("--attention sdpa: " + std::string(name) + " is written with eager attention alone").c_str());
  }
  check_refused(with(named_by_gpt2("codegen"), {{"rotary_dim", 8}, {"n_head", 2}}),
                ".n_head: 2 heads have no quarters");
}

TEST_CASE("attention_types names the local layers of gpt_neo") {
  CHECK(read(gpt_neo()).table_windows == std::vector<int64_t>{0, 8, 8});
  CHECK(read(gpt_neo()).windows == std::vector<int64_t>{0, 0, 0});
  CHECK(read(gpt_neo()).longest == 32);
  CHECK(read(with(gpt_neo(), {{"attention_types", nullptr}, {"num_layers", 24}})).table_windows.at(1) == 8);
  check_refused(with(gpt_neo(), {{"num_layers", 2}}), ".attention_types: must name num_layers layers, 2");
  check_refused(with(gpt_neo(), {{"attention_types", {{{"near"}, 3}}}}), ".attention_types: 'near' is not supported");
  check_refused(with(gpt_neo(), {{"attention_types", json::array({"local"})}}),
                ".attention_types: must be lists of names, each with the number of its repetitions");
}

TEST_CASE("mpt has fields of attention in an object") {
  CHECK(read(mpt()).longest == 2048);
  CHECK(read(mpt()).mlp == 256);
  CHECK(read(mpt()).activation == "gelu");
  CHECK(read(mpt()).attention_scale == 0.25);
  CHECK_FALSE(read(mpt()).clipped.has_value());
  const TransformersConfig config =
      read(with(mpt(), {{"attn_config", {{"clip_qkv", 6.0}, {"softmax_scale", 0.5}, {"attn_pdrop", 0}}}}));
  CHECK(config.clipped == 6.0);
  CHECK(config.attention_scale == 0.5);
  check_refused(with(mpt(), {{"attn_config", {{"attn_pdrop", 0.1}}}}),
                ".attn_config.attn_pdrop: dropout is not supported");
  check_attention_refused(mpt(), "eager", true, false, "--pack: the masks of mpt do not separate documents");
}

TEST_CASE("xglm has a table of sinusoids and scaled embeddings") {
  CHECK(read(xglm()).longest == 2048);
  CHECK(read(xglm()).embedding_multiplier == 8);
  CHECK(read(with(xglm(), {{"scale_embedding", false}})).embedding_multiplier == 1);
  CHECK(read(xglm()).embedding_dropout == 0.1);
  CHECK(read(xglm()).padding == 1);
  check_refused(with(xglm(), {{"activation_dropout", 0.1}}),
                ".activation_dropout: dropout after the activation is not supported");
  check_refused(with(xglm(), {{"layerdrop", 0.1}}), ".layerdrop: layers that are left out at random are not supported");
}

TEST_CASE("bloom has linear biases of scores and its own activation") {
  CHECK(read(bloom()).longest == 0);
  CHECK(read(bloom()).rotary.empty());
  CHECK(read(bloom()).mlp == 256);
  CHECK(read(bloom()).activation == "bloom_gelu");
  check_refused(with(bloom(), {{"apply_residual_connection_post_layernorm", true}}),
                ".apply_residual_connection_post_layernorm: a residual after the norm is not supported");
  check_refused(with(bloom(), {{"slow_but_exact", true}}),
                ".slow_but_exact: a linear layer in slices is not supported");
}

TEST_CASE("usual names of fields stand for a family's own") {
  const json named = {{"model_type", "bloom"},
                      {"vocab_size", 100},
                      {"n_embed", 64},
                      {"num_hidden_layers", 3},
                      {"num_attention_heads", 8}};
  CHECK(read(named).hidden == 64);
  CHECK(read(named).layers == 3);
  CHECK(read(named).heads == 8);
  CHECK(read(with(named, {{"n_head", 4}})).heads == 4);
  const json bigcode = {
      {"model_type", "gpt_bigcode"},  {"vocab_size", 100}, {"hidden_size", 64}, {"n_layer", 2}, {"n_head", 4},
      {"max_position_embeddings", 32}};
  CHECK(read(bigcode).positions == 32);
}

TEST_CASE("diffllama halves its values, which have no dropout") {
  CHECK(read(diffllama()).kv_heads == 2);
  check_refused(with(diffllama(), {{"num_key_value_heads", 1}}),
                ".num_key_value_heads: must be even, for the difference of two attentions");
  check_refused(with(diffllama(), {{"attention_dropout", 0.1}}),
                ".attention_dropout: must be 0, for the difference of two attentions");
}

TEST_CASE("phimoe draws two experts, and scales its rotary embedding by short_mscale") {
  const json phimoe = {{"model_type", "phimoe"}, {"vocab_size", 100},         {"hidden_size", 64},
                       {"hidden_act", "silu"},   {"intermediate_size", 96},   {"num_hidden_layers", 2},
                       {"rms_norm_eps", 1e-5},   {"num_attention_heads", 16}, {"num_local_experts", 4},
                       {"sliding_window", 32},   {"num_experts_per_tok", 2}};
  CHECK(read(phimoe).experts->far == 0.02);
  CHECK(read(with(phimoe, {{"router_jitter_noise", 0.25}})).experts->far == 0.5);
  CHECK(read(phimoe).kv_heads == 8);
  CHECK(read(phimoe).rotary.at(0).theta == 1000000.0);
  CHECK(read(phimoe).windows == std::vector<int64_t>{32, 32});
  check_refused(with(phimoe, {{"num_experts_per_tok", 1}}), ".num_experts_per_tok: must be 2");
  check_refused(with(phimoe, {{"input_jitter_noise", 0.1}}),
                ".input_jitter_noise: noise on the input of the router is not supported");
  const json scaling = {{"type", "longrope"},
                        {"short_factor", {1.0, 2.0}},
                        {"long_factor", {4.0, 4.0}},
                        {"short_mscale", 1.25},
                        {"original_max_position_embeddings", 64}};
  const json longer = with(phimoe, {{"max_position_embeddings", 256}, {"rope_scaling", scaling}});
  CHECK(read(longer).rotary.at(0).scale == 1.25);
  CHECK(read(longer).longest == 64);
  check_refused(with(longer, {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
                ".rope_scaling.rope_type: 'linear' is not supported; default and longrope are");
}

}  // namespace memtune::older_decoders_test
