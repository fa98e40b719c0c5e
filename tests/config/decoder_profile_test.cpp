// A model profile that contradicts itself must be refused before a process is started for it.
#include "core/config/decoder_profile.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

using namespace memtune;
using namespace memtune::config;
using nlohmann::json;

namespace {

json example() {
  return json::parse(
      R"({"description": "d", "kind": "decoder", "vocabulary": 256, "hidden": 64, "blocks": 4, "heads": 4,
      "kv_heads": 2, "mlp": 192, "sequence": 64, "batch": 2, "dtype": "fp32", "inputs": ["tokens:int64[2,64]<256"],
      "loss": "next_token"})");
}

void check_refused(const json& patch, const std::string& message) {
  json profile = example();
  profile.merge_patch(patch);
  CHECK_THROWS_WITH_AS(parse_decoder_profile("p", profile.dump()), message.c_str(), UsageError);
}

}  // namespace

TEST_CASE("a decoder profile is read, every field of it") {
  const DecoderProfile profile = parse_decoder_profile("p", example().dump());
  CHECK(profile.description == "d");
  CHECK(profile.vocabulary == 256);
  CHECK(profile.hidden == 64);
  CHECK(profile.blocks == 4);
  CHECK(profile.heads == 4);
  CHECK(profile.kv_heads == 2);
  CHECK(profile.mlp == 192);
  CHECK(profile.sequence == 64);
  CHECK(profile.batch == 2);
  CHECK(profile.dtype == "float32");
  REQUIRE(profile.inputs.size() == 1);
  CHECK(to_string(profile.inputs[0]) == "tokens:int64[2,64]<256");
  CHECK(profile.loss == "next_token");
}

TEST_CASE("text that is no profile is refused") {
  CHECK_THROWS_WITH_AS(parse_decoder_profile("p", ""), "p is not JSON: byte 1", UsageError);
  CHECK_THROWS_WITH_AS(parse_decoder_profile("p", "[]"), "p must be an object, not []", UsageError);
  CHECK_THROWS_WITH_AS(parse_decoder_profile("p", "{}"), "p.kind is missing", UsageError);
}

TEST_CASE("a decoder profile that contradicts itself is told where") {
  check_refused({{"kind", "encoder"}}, "p.kind must be decoder, not 'encoder'");
  check_refused({{"blocks", 0}}, "p.blocks must be an integer from 1 to 10000, not 0");
  check_refused({{"heads", 3}}, "p.heads must divide hidden: 64 / 3 leaves a rest");
  check_refused({{"kv_heads", 3}}, "p.kv_heads must divide heads: 4 / 3 leaves a rest");
  check_refused({{"heads", 64}, {"kv_heads", 1}}, "p: hidden / heads must be even for the rotary embedding, not 1");
  check_refused({{"loss", "next"}}, "unknown loss 'next'. Known: next_token, causal_lm, cross_entropy, mse, returned");
  check_refused({{"inputs", json::array()}}, "p.inputs must be the tokens alone, not 0 inputs");
  check_refused({{"vocabulary", 255}},
                "p.inputs[0] must be tokens:int64[2,64]<255 to agree with batch, sequence and vocabulary, not "
                "tokens:int64[2,64]<256");
  check_refused(
      {{"width", 1}},
      "unknown field of p 'width'. Known: description, kind, vocabulary, hidden, blocks, heads, kv_heads, mlp, "
      "sequence, batch, dtype, inputs, loss");
}
