#include "core/plan/request/trial_request.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_object_reader.h"
#include "core/base/loss_implementation.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"

namespace memtune::plan {
namespace {

using nlohmann::json;

constexpr int kMaxTrialSteps = 1'000'000, kMaxTrialRanks = 1 << 20;
constexpr int64_t kMaxTimeoutMs = int64_t{366} * 86'400'000;  // a year

void check_name(const std::string& kind, const std::string& text, const std::vector<std::string>& known) {
  for (const std::string& name : known)
    if (text == name) return;
  throw UsageError(unknown_name(kind, text, known));
}

void check_range(const std::string& what, int64_t value, int64_t least, int64_t most) {
  if (value < least)
    throw UsageError(what + " must be at least " + std::to_string(least) + ", not " + std::to_string(value));
  if (value > most)
    throw UsageError(what + " must be at most " + std::to_string(most) + ", not " + std::to_string(value));
}

void check_finite(const std::string& what, double value) {
  if (!(value >= 0 && value <= kMaxNumber))
    throw UsageError(what + " must be a finite number of at least 0, not " + std::to_string(value));
}

void check_device(const std::string& device) {
  const size_t colon = device.find(':');
  const std::string type = device.substr(0, colon), number = colon == std::string::npos ? "" : device.substr(colon + 1);
  const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
  const bool numbered = (type == "cuda" || type == "shapes") && digits && !number.empty() && number.size() <= 3;
  if (!numbered) check_name("device", device, {"cpu", "cuda", "cuda:0"});
}

void check_floating(const std::string& dtype) {
  if (dtype.empty()) return;
  const std::string name = canonical_dtype(dtype);
  if (std::ranges::find(kParameterDtypes, name) == kParameterDtypes.end())
    throw UsageError("dtype '" + dtype + "' is not a floating-point one; parameters can be " +
                     join(kParameterDtypes, ", "));
}

bool is_half(const std::string& dtype) { return dtype == "bfloat16" || dtype == "float16"; }

void check_attention(const TrainingSettings& training) {
  check_name("attention", training.attention, kAttentions);
  if (!(training.padding >= 0 && training.padding <= 0.5))
    throw UsageError("padding is a part of the batch from 0 to 0.5, not " + std::to_string(training.padding));
  if (training.pack && training.padding > 0)
    throw UsageError("--pack and --padding exclude each other: a packed row has no padding");
  if (training.attention != "flash-varlen") return;
  const std::string flag = "--attention flash-varlen ";
  if (!training.pack) throw UsageError(flag + "goes with --pack: it takes the lengths of a packed row's documents");
  if (training.device == "cpu") throw UsageError(flag + "needs a CUDA device: its kernels are for no other");
  const std::string computed_in = training.autocast.empty() ? training.dtype : training.autocast;
  if (!computed_in.empty() && !is_half(canonical_dtype(computed_in)))
    throw UsageError(flag + "takes bfloat16 or float16, not " + computed_in + ": say --dtype bf16 or --autocast bf16");
}

json model_json(const ModelAndInputSource& model) {
  return {{"path", model.path},           {"profile", model.profile},     {"arguments", model.arguments},
          {"libraries", model.libraries}, {"text_only", model.text_only}, {"trusted", model.trusted}};
}

// Refuses flags that are not supported with several ranks.
void check_ranks(const TrainingSettings& training) {
  check_range("ranks", training.ranks, 1, kMaxTrialRanks);
  check_name("reshard", training.reshard, kReshard);
  check_range("rank timeout", training.rank_timeout_ms, 1, kMaxTimeoutMs);
  check_floating(training.shard_dtype);
  check_floating(training.reduce_dtype);
  const auto needs_ranks = [&](bool asked, const std::string& flag) {
    if (asked && training.ranks == 1)
      throw UsageError(flag + " is for parameters sharded over several ranks: set --ranks");
  };
  needs_ranks(!training.shard_dtype.empty(), "--shard-dtype");
  needs_ranks(!training.reduce_dtype.empty(), "--reduce-dtype");
  needs_ranks(training.shard_offload, "--shard-offload");
  if (training.ranks == 1) return;
  const std::string with = "--ranks " + std::to_string(training.ranks) + ": ";
  if (training.optimizer != "adamw" && training.optimizer != "sgd")
    throw UsageError(with + "--optimizer " + training.optimizer + " is not sharded; adamw and sgd are");
  const auto refuse = [&](bool asked, const std::string& flag) {
    if (asked) throw UsageError(with + flag + " does not go with several ranks");
  };
  refuse(training.optimizer_in_backward, "--optimizer-in-backward");
  refuse(!training.load_in.empty(), "--load-in");
  refuse(training.pack, "--pack");
  refuse(training.padding > 0, "--padding");
}

ModelAndInputSource read_model(const json& json, const std::string& path) {
  ModelAndInputSource model;
  JsonObjectReader object(json, path);
  object.read("path", model.path);
  object.read("profile", model.profile);
  object.read("arguments", model.arguments);
  object.read("libraries", model.libraries);
  object.read("text_only", model.text_only);
  object.read("trusted", model.trusted);
  return model;
}

json training_json(const TrainingSettings& training) {
  return {{"loss", training.loss},
          {"loss_impl", training.loss_impl},
          {"output", training.output},
          {"target", training.target},
          {"optimizer", training.optimizer},
          {"learning_rate", training.learning_rate},
          {"max_grad_norm", training.max_grad_norm},
          {"optimizer_in_backward", training.optimizer_in_backward},
          {"accumulate", training.accumulate},
          {"dtype", training.dtype},
          {"autocast", training.autocast},
          {"lora", training.lora},
          {"load_in", training.load_in},
          {"seed", training.seed},
          {"steps", training.steps},
          {"warmup", training.warmup},
          {"traced_steps", training.traced_steps},
          {"device", training.device},
          {"memory_cap_bytes", training.memory_cap_bytes},
          {"attention", training.attention},
          {"pack", training.pack},
          {"padding", training.padding},
          {"blocks", training.blocks},
          {"batch", training.batch},
          {"sequence", training.sequence},
          {"ranks", training.ranks},
          {"reshard", training.reshard},
          {"shard_dtype", training.shard_dtype},
          {"reduce_dtype", training.reduce_dtype},
          {"shard_offload", training.shard_offload},
          {"rank_timeout_ms", training.rank_timeout_ms},
          {"host_budget_bytes", training.host_budget_bytes},
          {"disk_budget_bytes", training.disk_budget_bytes},
          {"scratch", training.scratch},
          {"scratch_in_memory", training.scratch_in_memory}};
}

TrainingSettings read_training(const json& json, const std::string& path) {
  TrainingSettings training;
  JsonObjectReader object(json, path);
  object.read("loss", training.loss);
  object.read("loss_impl", training.loss_impl);
  object.read("output", training.output);
  object.read("target", training.target);
  object.read("optimizer", training.optimizer);
  object.read("learning_rate", training.learning_rate);
  object.read("max_grad_norm", training.max_grad_norm);
  object.read("optimizer_in_backward", training.optimizer_in_backward);
  object.read("accumulate", training.accumulate);
  object.read("dtype", training.dtype);
  object.read("autocast", training.autocast);
  object.read("lora", training.lora);
  object.read("load_in", training.load_in);
  object.read("seed", training.seed, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  object.read("steps", training.steps);
  object.read("warmup", training.warmup);
  object.read("traced_steps", training.traced_steps);
  object.read("device", training.device);
  object.read("memory_cap_bytes", training.memory_cap_bytes);
  object.read("attention", training.attention);
  object.read("pack", training.pack);
  object.read("padding", training.padding);
  object.read("blocks", training.blocks);
  object.read("batch", training.batch);
  object.read("sequence", training.sequence);
  object.read("ranks", training.ranks);
  object.read("reshard", training.reshard);
  object.read("shard_dtype", training.shard_dtype);
  object.read("reduce_dtype", training.reduce_dtype);
  object.read("shard_offload", training.shard_offload);
  object.read("rank_timeout_ms", training.rank_timeout_ms);
  object.read("host_budget_bytes", training.host_budget_bytes);
  object.read("disk_budget_bytes", training.disk_budget_bytes);
  object.read("scratch", training.scratch);
  object.read("scratch_in_memory", training.scratch_in_memory);
  check_training(training);
  return training;
}

}  // namespace

void check_training(const TrainingSettings& training) {
  if (!training.loss.empty()) check_name("loss", training.loss, kLosses);
  parse_loss_implementation(training.loss_impl);
  check_attention(training);
  check_name("optimizer", training.optimizer, kOptimizers);
  check_finite("learning rate", training.learning_rate);
  check_finite("the norm that gradients are clipped to", training.max_grad_norm);
  check_range("accumulate", training.accumulate, 1, kMaxTrialSteps);
  if (training.optimizer_in_backward && (training.accumulate > 1 || training.max_grad_norm > 0))
    throw UsageError(
        "--optimizer-in-backward frees each gradient at once: neither --accumulate nor --max-grad-norm, which "
        "need all of them, goes with it");
  check_floating(training.dtype);
  if (!training.autocast.empty()) check_name("autocast dtype", training.autocast, kAutocastDtypes);
  if (!training.load_in.empty()) check_name("load-in", training.load_in, kQuantizations);
  if (!training.load_in.empty() && training.lora.empty())
    throw UsageError("--load-in goes with --lora: quantized weights are not trained");
  check_range("steps", training.steps, 1, kMaxTrialSteps);
  check_range("warmup", training.warmup, 0, kMaxTrialSteps);
  check_range("traced steps", training.traced_steps, 0, kMaxTrialSteps);
  check_range("memory cap", training.memory_cap_bytes, 0, kMaxBytes);
  check_range("batch", training.batch, 0, kMaxCount);
  check_range("sequence", training.sequence, 0, kMaxCount);
  check_range("host budget", training.host_budget_bytes, 0, kMaxBytes);
  check_range("disk budget", training.disk_budget_bytes, 0, kMaxBytes);
  check_device(training.device);
  check_ranks(training);
}

void to_json(json& out, const TrialRequest& request) {
  json inputs = json::array();
  for (const InputSpec& input : request.model.inputs) inputs.push_back(to_string(input));
  out = {{"model", model_json(request.model)},
         {"inputs", inputs},
         {"inputs_file", request.model.inputs_file},
         {"training", training_json(request.training)},
         {"plan", request.plan},
         {"reference", request.envelope.reference},
         {"gradients", request.envelope.gradients},
         {"only_gradients", request.envelope.only_gradients},
         {"trace", request.envelope.trace},
         {"costs", request.envelope.costs},
         {"rank", request.envelope.rank},
         {"rendezvous", request.envelope.rendezvous},
         {"address", request.envelope.address},
         {"round", request.envelope.round},
         {"command", request.envelope.command},
         {"allocator", request.envelope.allocator}};
}

void from_json(const json& json, TrialRequest& request) {
  request = {};
  std::vector<std::string> inputs;
  JsonObjectReader object(json, "request");
  object.require({"model", "training"});
  request.model = read_model(*object.find("model"), object.path("model"));
  object.read("inputs", inputs);
  for (const std::string& input : inputs) request.model.inputs.push_back(parse_input_spec(input));
  object.read("inputs_file", request.model.inputs_file);
  request.training = read_training(*object.find("training"), object.path("training"));
  if (const auto* plan = object.find("plan")) from_json(*plan, request.plan);
  object.read("reference", request.envelope.reference);
  object.read("gradients", request.envelope.gradients);
  object.read("only_gradients", request.envelope.only_gradients);
  object.read("trace", request.envelope.trace);
  object.read("costs", request.envelope.costs);
  object.read("rank", request.envelope.rank, 0, request.training.ranks - 1);
  object.read("rendezvous", request.envelope.rendezvous);
  object.read("address", request.envelope.address);
  object.read("round", request.envelope.round, 0);
  object.read("command", request.envelope.command);
  object.read("allocator", request.envelope.allocator);
}

}  // namespace memtune::plan
