// Decoders out of a config.json: that their bits are Python's is checked in tests/models/check_transformers.py; here
// what is refused, and where weights come from.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/frontend/front_end.h"
#include "core/frontend/inputs.h"
#include "core/frontend/transformers/weights.h"
#include "core/safetensors/layout.h"
#include "tests/support/run_program.h"

namespace memtune::frontend {
namespace {

const char* const kConfig = R"({"model_type": "mistral", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
  "hidden_act": "silu", "sliding_window": 8})";

struct Place : test::ScratchFolder {
  Place() { std::ofstream(path / "config.json") << kConfig; }
  Source source(int64_t seed = 0) const {
    Source result;
    result.model.path = (path / "config.json").string();
    result.seed = seed;
    return result;
  }
  // One tensor of zeros.
  void write_weights(const std::string& name, std::vector<int64_t> shape) const {
    safetensors::Header header;
    const std::vector<safetensors::Spec> specs = {{name, safetensors::Dtype::f32, std::move(shape)}};
    header.entries = safetensors::lay_out(specs);
    std::ofstream(path / "model.safetensors", std::ios::binary)
        << safetensors::print_header(header) << std::string(safetensors::data_bytes_of(header.entries), '\0');
  }
};

at::Tensor parameter(const program::Program& program, const std::string& name) {
  for (const auto& [known, tensor] : program.state.parameters)
    if (known == name) return tensor;
  return {};
}

TEST_CASE("weights are made up by the seed where no file holds them") {
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

TEST_CASE("weights follow the dtype that is asked for, and their modules have the names of transformers") {
  const Place place;
  Source source = place.source();
  source.dtype = "bfloat16";
  const program::Program program = lower(source);
  for (const auto& [name, tensor] : program.state.parameters) CHECK((tensor.scalar_type() == at::kBFloat16));
  bool found = false;
  for (const auto& region : program.regions)
    found |= region.path == "model.layers.1.self_attn" && region.type == "MistralAttention";
  CHECK(found);
}

TEST_CASE("a weight that the files do not have, or have in another shape, is named") {
  const Place place;
  place.write_weights("other", {2});
  CHECK_THROWS_WITH_AS(lower(place.source()),
                       "the model's safetensors files have no tensor 'model.embed_tokens.weight'", UsageError);
  place.write_weights("model.embed_tokens.weight", {50, 15});
  CHECK_THROWS_WITH_AS(
      lower(place.source()),
      "'model.embed_tokens.weight' of the model's safetensors files is [50, 15], by its config [50, 16]", UsageError);
}

TEST_CASE("weights may have been saved without the head, and experts one by one") {
  const Place place;
  place.write_weights("embed_tokens.weight", {50, 15});
  CHECK_THROWS_WITH_AS(
      lower(place.source()),
      "'model.embed_tokens.weight' of the model's safetensors files is [50, 15], by its config [50, 16]", UsageError);
  config::TransformersConfig config;
  config.family = *config::find_transformers_family("mixtral");
  const auto stacked = [&](const char* name) {
    place.write_weights(name, {3, 4});
    TransformersWeights weights({place.path / "model.safetensors"}, config, at::TensorOptions(at::kFloat), 0);
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
  config::TrialRequest request;
  request.model.path = place.source().model.path;
  request.inputs = {{"input_ids", "int64", {2, 7}, 50}};
  CHECK(make_batch(request, Loss::causal_lm, model, c10::kCPU).tokens == 14);
  request.inputs[0].shape[1] = 8;
  CHECK_THROWS_WITH_AS(make_batch(request, Loss::causal_lm, model, c10::kCPU),
                       "sequences of 8 are not built: beyond 7 the model's sliding window, positions or their scaling "
                       "end; say --seq",
                       UsageError);
}

}  // namespace
}  // namespace memtune::frontend
