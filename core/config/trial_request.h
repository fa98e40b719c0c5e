// Everything one trial process needs to know, as one JSON file: written by the sweep, read by memtune-trial.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/config/plan.h"

namespace memtune::config {

// "tokens:int64[4,4096]<32000": name, dtype, shape; '<n' draws integers from [0, n). Without a bound integers are drawn
// from [0, 2) and floats from a standard normal. A name may be empty (":float32[8,3,224,224]"): inputs go by position.
struct InputSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::optional<int64_t> below;
};
InputSpec parse_input_spec(const std::string& text);  // UsageError that shows the form
bool is_argument(const std::string& text);            // "steps=3": no tensor
std::string to_string(const InputSpec& spec);

// dtype names as memtune writes them: float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool.
// Accepts fp32, bf16, fp16, float, half, long, int as well. UsageError with the valid names.
std::string canonical_dtype(const std::string& text);

struct ModelSource {
  std::string path;                         // a TorchScript file, a .pt2 or a config.json; or
  std::string profile;                      // the JSON text of a model profile (profiles/models)
  std::vector<std::string> arguments = {};  // of forward, that are no tensors: "steps=3"
  std::vector<std::string> libraries = {};  // shared objects with operators that the model uses
  bool trusted = false;                     // it may reach files, processes and the network
};

struct TrainingSettings {
  std::string loss = "";            // next_token | causal_lm | cross_entropy | mse | returned
  std::string loss_impl = "plain";  // plain | chunked=N | fused
  std::string output = "";          // what of the model's answer the loss takes: "logits", "1"; "": the usual
  std::string target = "";          // name of the input that is the target; "" looks for labels, target
  std::string optimizer = "adamw";  // adamw | sgd
  double learning_rate = 1e-4;
  double max_grad_norm = 0;            // gradients are scaled down to this 2-norm of all of them; 0: never
  bool optimizer_in_backward = false;  // each parameter is updated when its gradient is there, which is freed then
  int accumulate = 1;                  // forward and backward so often a step, >= 1
  std::string dtype = "";              // floating parameters are cast to it; "": as stored
  std::string autocast = "";           // "" | bfloat16 | float16
  std::string lora = "";     // the adapter that is trained instead of the model (core/config/lora.h); "": none
  std::string load_in = "";  // "" | a word of kQuantizations: how the linear layers' frozen weights are held
  int64_t seed = 0;
  int steps = 5;                   // measured, >= 1
  int warmup = 2;                  // >= 0
  int traced_steps = 3;            // with the profiler on, after the measured ones
  std::string device = "cpu";      // cpu | cuda | cuda:N
  int64_t memory_cap_bytes = 0;    // 0: none
  std::string attention = "sdpa";  // sdpa | eager | flash-varlen, of a model of a config.json
  bool pack = false;               // a batch is one row, its samples documents in it; of such a model
  double padding = 0;              // so much of a made-up batch is padding, 0 to 0.5; of such a model
  std::string blocks = "";         // glob of module paths; "": found by itself
  int64_t batch = 0;               // replaces the first dimension of every made-up input; 0: as specified
  int64_t sequence = 0;            // replaces the second dimension of made-up inputs that have one; 0: as specified

  // Processes that train together, each on a batch of its own, the model sharded over them.
  int ranks = 1;
  std::string reshard = "always";     // a word of kReshard: when gathered parameters are freed
  std::string shard_dtype = "";       // of what a rank keeps of trained parameters; "": as they are
  std::string reduce_dtype = "";      // gradients are reduced in it; "": as they are
  bool shard_offload = false;         // shards, their gradients and the optimizer are in host memory
  int64_t rank_timeout_ms = 120'000;  // that a rank waits for the others in a collective

  // Where values wait that leave the device.
  int64_t host_budget_bytes = 0;   // 0: none
  int64_t disk_budget_bytes = 0;   // 0: what the file system has free
  std::string scratch = "";        // folder of the scratch file; "": no disk
  bool scratch_in_memory = false;  // the scratch folder may lie in memory (tmpfs)
};

// UsageError naming the setting, its value and the valid ones, for all that can be told without the model.
void check_training(const TrainingSettings& training);

struct TrialRequest {
  ModelSource model;
  std::vector<InputSpec> inputs;
  std::string inputs_file;  // safetensors; "" when inputs are made up
  TrainingSettings training;
  Plan plan;
  std::string reference;   // file with the baseline's loss and gradients; written by the first trial, "" for none
  std::string trace;       // file to write; "": none
  std::string costs;       // file for StepCosts, of a plan that moves nothing; "": none
  int rank = 0;            // of training.ranks, which this is
  std::string rendezvous;  // file by which they meet, or "tcp://host:port"; "": there is one rank
  std::string address;     // of this machine, by which other ranks reach it; "": the loopback device
  int round = 0;           // the first compares gradients and is traced, later ones only measure
  std::string command;     // as the person typed it: for the trace's header
};

void to_json(nlohmann::json& json, const TrialRequest& request);
void from_json(const nlohmann::json& json, TrialRequest& request);

}  // namespace memtune::config
