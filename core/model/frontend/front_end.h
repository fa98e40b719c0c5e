// A front end lowers one model format to a Program: torch.export archives, TorchScript, or a Hugging Face config or
// built-in decoder. The Program does not depend on the format. All front ends pass the suite of
// tests/frontend/conformance_test.cpp.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "core/model/frontend/detected_model_source.h"
#include "core/model/frontend/loss.h"
#include "core/model/program/program.h"

namespace memtune::frontend {

// What a model of a config.json gives.
enum class ModelOutputHeadKind {
  of_config,  // logits, or the loss of a classifier
  score,      // one score per row, of a reward model
  embedding,  // a vector per row, as sentence-transformers pools it
};

ModelOutputHeadKind head_for(LossKind loss);

struct ModelSourceAndLoweringOptions {
  plan::ModelAndInputSource model;
  std::string dtype;  // canonical name; floating parameters and buffers are cast to it; "": as stored
  c10::Device device = c10::kCPU;
  int64_t seed = 0;                // for random weights
  int64_t sequence = 0;            // longest sequence of a built-in model; 0: as in its profile
  std::string attention = "sdpa";  // for a config.json
  bool pack = false;               // for a config.json: takes positions, which restart with each document
  bool padded = false;             // for a config.json: takes an attention_mask
  std::string autocast = "";       // autocast dtype of the forward; "": none
  std::string load_in = "";        // quantization of linear weights: a word of kQuantizations; "": none
  std::string lora = "";           // adapter, parsed by model::parse_lora; "": the model itself is trained
  ModelOutputHeadKind head = ModelOutputHeadKind::of_config;
  bool weights_on_host = false;  // for a config.json: the bytes of all parameters are in the state's host_weights
};

enum class AttentionImplementation { sdpa, eager, flash_varlen };
AttentionImplementation parse_attention(const std::string& text);  // throws UsageError with the valid names

class FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  virtual bool claims(const DetectedModelSource& probe) const = 0;
  // Returns the model in training mode, on the device, without a loss. Throws a one-line UsageError if it cannot be
  // trained.
  virtual program::Program lower(const ModelSourceAndLoweringOptions& source) const = 0;
};

const std::vector<std::unique_ptr<const FrontEnd>>& front_ends();

// Lowers the model with the front end of its format, then adds quantization and the adapter. Throws UsageError for an
// unsupported file; the message names the file's format and an alternative.
program::Program lower(const ModelSourceAndLoweringOptions& source);

}  // namespace memtune::frontend
