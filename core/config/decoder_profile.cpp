#include "core/config/decoder_profile.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/json_object.h"

namespace memtune::config {
namespace {

constexpr int64_t kMost = int64_t{1} << 24;  // keeps products of two sizes far from overflow

nlohmann::json parse_text(const std::string& name, std::string_view text) {
  try {
    return parse_json(text, EqualKeys::refused);
  } catch (const nlohmann::json::parse_error& error) {
    throw UsageError(name + " is not JSON: byte " + std::to_string(error.byte));
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(name + ": " + error.what());
  }
}

void check_divides(const std::string& name, const char* part, int64_t divisor, const char* whole, int64_t number) {
  if (number % divisor != 0)
    throw UsageError(name + "." + part + " must divide " + whole + ": " + std::to_string(number) + " / " +
                     std::to_string(divisor) + " leaves a rest");
}

void check_heads(const std::string& name, const DecoderProfile& profile) {
  check_divides(name, "heads", profile.heads, "hidden", profile.hidden);
  check_divides(name, "kv_heads", profile.kv_heads, "heads", profile.heads);
  const int64_t width = profile.hidden / profile.heads;
  if (width % 2 != 0)
    throw UsageError(name + ": hidden / heads must be even for the rotary embedding, not " + std::to_string(width));
}

// Tokens are looked up in the vocabulary, so a bound beyond it would crash in the middle of a step.
void check_inputs(const std::string& name, const DecoderProfile& profile) {
  if (profile.inputs.size() != 1)
    throw UsageError(name + ".inputs must be the tokens alone, not " + std::to_string(profile.inputs.size()) +
                     " inputs");
  const InputSpec& tokens = profile.inputs[0];
  const std::vector<int64_t> shape = {profile.batch, profile.sequence};
  if (tokens.dtype != "int64" || tokens.shape != shape || !tokens.below || *tokens.below > profile.vocabulary)
    throw UsageError(name + ".inputs[0] must be tokens:int64[" + std::to_string(profile.batch) + "," +
                     std::to_string(profile.sequence) + "]<" + std::to_string(profile.vocabulary) +
                     " to agree with batch, sequence and vocabulary, not " + to_string(tokens));
}

void check(const std::string& name, DecoderProfile& profile) {
  check_heads(name, profile);
  profile.dtype = canonical_dtype(profile.dtype);
  TrainingSettings training;
  training.dtype = profile.dtype;
  training.loss = profile.loss;
  check_training(training);
  check_inputs(name, profile);
}

}  // namespace

DecoderProfile parse_decoder_profile(std::string_view name, std::string_view text) {
  const nlohmann::json json = parse_text(std::string(name), text);
  DecoderProfile profile;
  std::string kind;
  std::vector<std::string> inputs;
  JsonObject object(json, std::string(name));
  object.require({"kind", "vocabulary", "hidden", "blocks", "heads", "kv_heads", "mlp", "sequence", "batch", "dtype",
                  "inputs", "loss"});
  object.read("description", profile.description);
  object.read("kind", kind);
  object.read("vocabulary", profile.vocabulary, 2, kMost);
  object.read("hidden", profile.hidden, 2, kMost);
  object.read("blocks", profile.blocks, 1, 10000);
  object.read("heads", profile.heads, 1, kMost);
  object.read("kv_heads", profile.kv_heads, 1, kMost);
  object.read("mlp", profile.mlp, 1, kMost);
  object.read("sequence", profile.sequence, 2, kMost);
  object.read("batch", profile.batch, 1, kMost);
  object.read("dtype", profile.dtype);
  object.read("inputs", inputs);
  object.read("loss", profile.loss);
  object.finish();
  if (kind != "decoder") throw UsageError(object.path("kind") + " must be decoder, not '" + kind + "'");
  for (const std::string& input : inputs) profile.inputs.push_back(parse_input_spec(input));
  check(std::string(name), profile);
  return profile;
}

}  // namespace memtune::config
