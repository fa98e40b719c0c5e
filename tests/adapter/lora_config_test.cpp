#include "core/model/adapter/lora_config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/run_program.h"
namespace memtune::model::lora_config_test {
namespace {

std::string with_defaults(std::string fields) {
  for (const std::string field : {R"("peft_type": "LORA")", R"("target_modules": ["q_proj"])"})
    if (fields.find(field.substr(0, field.find(':'))) == std::string::npos) fields += ", " + field;
  return fields;
}

struct Adapter : test::ScratchFolder {
  explicit Adapter(const std::string& fields) {
    std::ofstream(path / "adapter_config.json") << "{" << with_defaults(fields) << "}";
  }
  LoraConfig read() const { return parse_lora(path.string()); }
};

std::string refusal(const std::string& fields) {
  try {
    Adapter(fields).read();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a typed adapter has peft's defaults and adapts all linear layers but the head") {
  const LoraConfig lora = parse_lora("r=16");
  CHECK(lora.rank == 16);
  CHECK(lora.scale_of("q_proj") == 8.0 / 16);
  CHECK(lora.dropout == 0);
  CHECK(lora.adapts("layers.0.q_proj", false));
  CHECK_FALSE(lora.adapts("lm_head", true));
}

TEST_CASE("targets match the last parts of a module's path as in peft") {
  const LoraConfig lora = parse_lora("r=4,alpha=8,dropout=0.05,targets=q_proj+mlp.up_proj,rslora");
  CHECK(lora.adapts("model.layers.0.self_attn.q_proj", false));
  CHECK(lora.adapts("q_proj", true));
  CHECK(lora.adapts("model.mlp.up_proj", false));
  CHECK_FALSE(lora.adapts("model.up_proj", false));
  CHECK_FALSE(lora.adapts("model.seq_proj", false));
  CHECK(lora.scale_of("q_proj") == 8.0 / std::sqrt(4.0));
}

TEST_CASE("a pattern matches the whole path") {
  const LoraConfig lora = Adapter(R"("target_modules": ".*\\.1\\..*_proj")").read();
  CHECK(lora.adapts("layers.1.mlp.up_proj", false));
  CHECK_FALSE(lora.adapts("layers.1.mlp.up_proj.extra", false));
  CHECK_FALSE(lora.adapts("layers.2.mlp.up_proj", false));
}

TEST_CASE("typed targets are a pattern if they have signs of one") {
  const LoraConfig lora = parse_lora(R"(r=4,targets=model.layers.[\d]+.(mlp|self_attn).(up|q)_proj)");
  CHECK(lora.adapts("model.layers.11.mlp.up_proj", false));
  CHECK_FALSE(lora.adapts("model.layers.11.mlp.down_proj", false));
  CHECK_THROWS_AS(parse_lora("targets=(q_proj"), UsageError);
}

TEST_CASE("a pattern may name the text model inside a whole one, if that is what is measured") {
  for (const char* pattern :
       {R"(targets=model.language_model.layers.[\d]+.q_proj)", "targets=language_model.model.*q_proj"}) {
    LoraConfig lora = parse_lora(pattern);
    CHECK_FALSE(lora.adapts("model.layers.3.q_proj", false));
    lora.of_whole = true;
    CHECK(lora.adapts("model.layers.3.q_proj", false));
    CHECK_FALSE(lora.adapts("model.layers.3.k_proj", false));
  }
}

TEST_CASE("a pattern is a Python regex and an invalid one is refused") {
  const LoraConfig lora = Adapter(R"("target_modules": "(?i).*\\.(?P<n>\\d+)\\.MLP\\..*\\Z")").read();
  CHECK(lora.adapts("layers.1.mlp.up_proj", false));
  CHECK_FALSE(lora.adapts("layers.x.mlp.up_proj", false));
  CHECK(Adapter(R"("target_modules": ".*(?<=q_)proj")").read().adapts("layers.1.q_proj", false));
  CHECK(refusal(R"("target_modules": "(?<=a*).*")") ==
        "adapter_config.json: '(?<=a*).*' is no regular expression: lookbehind assertion is not fixed length at "
        "character 0");
}

TEST_CASE("an error in --lora is reported in one line") {
  CHECK_THROWS_WITH_AS(parse_lora("rank=4"), "--lora: unknown key 'rank'. Known: r, alpha, dropout, targets, rslora",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse_lora("r=0"), "--lora: r must be from 1 to 65536, not 0", UsageError);
  CHECK_THROWS_WITH_AS(parse_lora("r=1,r=2"), "--lora: r is there twice", UsageError);
  CHECK_THROWS_WITH_AS(parse_lora("dropout=1"), "--lora: dropout must be at least 0 and below 1, not 1.000000",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse_lora("alpha"), "--lora: alpha needs a value: alpha=...", UsageError);
  CHECK_THROWS_AS(parse_lora("targets=q_proj+"), UsageError);
  CHECK_THROWS_WITH_AS(parse_lora("/no/such"), "--lora: no such file: /no/such", UsageError);
}

TEST_CASE("an adapter_config.json is read with its patterns and exclusions and layers") {
  const LoraConfig lora = Adapter(R"("r": 8, "lora_alpha": 16, "lora_dropout": 0.1, "bias": "lora_only",
    "exclude_modules": ["layers.3.q_proj"], "layers_to_transform": [1, 3], "init_lora_weights": "gaussian",
    "rank_pattern": {"layers.1.q_proj": 2}, "alpha_pattern": {".*1\\.q_proj": 3}, "revision": null, "use_dora": false)")
                              .read();
  CHECK(lora.adapts("model.layers.1.q_proj", false));
  CHECK_FALSE(lora.adapts("model.layers.2.q_proj", false));
  CHECK_FALSE(lora.adapts("model.layers.3.q_proj", false));
  CHECK(lora.rank_of("model.layers.1.q_proj") == 2);
  CHECK(lora.rank_of("model.layers.11.q_proj") == 8);
  CHECK(lora.scale_of("model.layers.1.q_proj") == 3.0 / 2);
  CHECK((lora.start == LoraInit::gaussian));
  CHECK((lora.bias == LoraBias::adapted));
  CHECK(lora.weights.empty());
}

TEST_CASE("an adapter setting that is not supported is refused with its field") {
  CHECK(refusal(R"("use_dora": true)").starts_with("adapter_config.json: use_dora true is not supported"));
  CHECK(refusal(R"("modules_to_save": ["lm_head"])").find("modules_to_save [\"lm_head\"]") != std::string::npos);
  CHECK(refusal(R"("init_lora_weights": "pissa")").find("\"pissa\"") != std::string::npos);
  CHECK(refusal(R"("peft_type": "IA3")") == "adapter_config.json: peft_type IA3 is not supported; LORA is");
  CHECK(refusal(R"("target_modules": null)").find("target_modules is missing") != std::string::npos);
  CHECK(refusal(R"("target_modules": "(")").find("no regular expression") != std::string::npos);
  CHECK(refusal(R"("rank_pattern": {"(": 3})").find("no regular expression") != std::string::npos);
  CHECK(refusal(R"("r": "8")").find("adapter_config.json.r must be an integer") != std::string::npos);
}

TEST_CASE("adapter weights are found in the folder of the config and a request keeps full paths") {
  const Adapter adapter(R"("r": 2)");
  std::ofstream(adapter.path / "adapter_model.safetensors") << "x";
  CHECK(adapter.read().weights == adapter.path / "adapter_model.safetensors");
  CHECK(canonical_lora(adapter.path.string()) == (adapter.path / "adapter_config.json").string());
  CHECK(canonical_lora("r=4") == "r=4");
}

}  // namespace memtune::model::lora_config_test
