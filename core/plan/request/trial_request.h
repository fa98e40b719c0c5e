// Request for one trial process, as a JSON file. The sweep writes it, memtune-trial reads it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/strategy/plan.h"

namespace memtune::plan {

// "tokens:int64[4,4096]<32000": name, dtype, shape, bound. Integers are drawn from [0, bound), or from [0, 2) without a
// bound. Floats are drawn from a standard normal distribution. The name may be empty (":float32[8,3,224,224]"); inputs
// are then positional.
struct InputSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::optional<int64_t> below;
};
InputSpec parse_input_spec(const std::string& text);  // throws UsageError with the form
bool is_argument(const std::string& text);            // "steps=3": an argument that is no tensor
std::string to_string(const InputSpec& spec);

// memtune's name of a dtype: float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool. Also accepts fp32,
// fp64, fp16, bf16, float, double, half, long, int, short. Throws UsageError with the valid names.
std::string canonical_dtype(const std::string& text);

// The model and its inputs.
struct ModelAndInputSource {
  std::string path = "";                    // a TorchScript file, a .pt2 or a config.json; else `profile`
  std::string profile = "";                 // JSON text of a built-in model (profiles/models)
  std::vector<std::string> arguments = {};  // arguments of forward that are no tensors: "steps=3"
  std::vector<std::string> libraries = {};  // shared libraries with operators of the model
  bool text_only = false;                   // of a config.json of several modalities, its text model
  bool trusted = false;                     // may access files, processes and the network
  std::vector<InputSpec> inputs = {};
  std::string inputs_file = "";  // safetensors; "": synthetic inputs
};

struct TrainingSettings {
  std::string loss = "";            // a word of kLosses
  std::string loss_impl = "plain";  // plain | chunked=N | fused
  std::string output = "";          // which model output the loss uses: "logits", "1"; "": the default
  std::string target = "";          // name of the target input; "": labels or target
  std::string optimizer = "adamw";  // a word of kOptimizers
  double learning_rate = 1e-4;
  double max_grad_norm = 0;            // clips gradients to this 2-norm; 0: no clipping
  bool optimizer_in_backward = false;  // updates each parameter, and frees its gradient, inside backward
  int accumulate = 1;                  // gradient accumulation steps, >= 1
  std::string dtype = "";              // floating-point parameters are cast to it; "": as stored
  std::string autocast = "";           // "" | bfloat16 | float16
  std::string lora = "";     // adapter to train instead of the model (core/model/adapter/lora_config.h); "": none
  std::string load_in = "";  // "" | a word of kQuantizations: storage of frozen linear weights
  int64_t seed = 0;
  int steps = 5;                   // measured, >= 1
  int warmup = 2;                  // >= 0
  int traced_steps = 3;            // under the profiler, after the measured ones
  std::string device = "cpu";      // cpu | cuda | cuda:N; shapes:N has no data: a GPU of compute capability N / 10
  int64_t memory_cap_bytes = 0;    // 0: none
  std::string attention = "sdpa";  // sdpa | eager | flash-varlen; for a config.json
  bool pack = false;               // packs all samples into one row as documents; for a config.json
  double padding = 0;              // share of a synthetic batch that is padding, 0 to 0.5; for a config.json
  std::string blocks = "";         // glob of module paths; "": detected
  int64_t batch = 0;               // replaces dimension 0 of synthetic inputs; 0: as specified
  int64_t sequence = 0;            // replaces dimension 1 of synthetic inputs that have one; 0: as specified

  // Ranks that train together. Parameters are sharded over them; each has a micro-batch of its own.
  int ranks = 1;
  std::string reshard = "always";     // a word of kReshard: when gathered parameters are freed
  std::string shard_dtype = "";       // dtype of the trained parameter shards; "": unchanged
  std::string reduce_dtype = "";      // dtype of gradient reduction; "": unchanged
  bool shard_offload = false;         // parameter shards, gradients and optimizer states are in host memory
  int64_t rank_timeout_ms = 120'000;  // timeout of a collective

  // Limits and place of offloaded activations.
  int64_t host_budget_bytes = 0;   // 0: no limit
  int64_t disk_budget_bytes = 0;   // 0: the free space of the file system
  std::string scratch = "";        // folder of the scratch file; "": no offload to disk
  bool scratch_in_memory = false;  // the scratch folder may be in memory (tmpfs)
};

// Checks all settings that need no model. Throws UsageError with the setting, its value and the valid values.
void check_training(const TrainingSettings& training);

// How one process runs a trial, and where it writes.
struct TrialFilesAndRank {
  std::string reference;        // file with the baseline's loss and gradients, written by the first trial; "": none
  bool gradients = false;       // a new reference has gradients, not their hashes alone
  bool only_gradients = false;  // the trial writes a reference with gradients, even if there is one, and ends
  std::string trace;            // output file; "": none
  std::string costs;            // output file for RecordedStepCosts, for plans without offloading; "": none
  int rank = 0;                 // of this process, below training.ranks
  std::string rendezvous;       // of the ranks: a file, or "tcp://host:port"; "": one rank only
  std::string address;          // of this machine, for other ranks; "": the loopback device
  int round = 0;                // round 0 compares gradients and is traced; later rounds only measure
  std::string command;          // as typed by the user, for the trace's header
  std::string allocator;  // settings of PyTorch's allocator, "expandable_segments:True"; "": those of the environment
};

// As JSON, the members of the envelope and the inputs stand beside "model", "training" and "plan".
struct TrialRequest {
  ModelAndInputSource model;
  TrainingSettings training;
  Plan plan;
  TrialFilesAndRank envelope;
};

void to_json(nlohmann::json& json, const TrialRequest& request);
void from_json(const nlohmann::json& json, TrialRequest& request);

}  // namespace memtune::plan
