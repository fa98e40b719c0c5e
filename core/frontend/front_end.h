// A form that models come in: an archive of torch.export, TorchScript, a Hugging Face config, the built-in decoder.
// What a front end gives is a Program that nothing of the form is left in; all of them pass the suite of
// tests/frontend/conformance_test.cpp.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "core/frontend/probe.h"
#include "core/program/program.h"

namespace memtune::frontend {

struct Source {
  config::ModelSource model;
  std::string dtype;  // floating parameters and buffers are cast to it; canonical name, "": as stored
  c10::Device device = c10::kCPU;
  int64_t seed = 0;                // of weights that no file holds
  int64_t sequence = 0;            // the longest that a built-in model will see; 0: as its profile says
  std::string attention = "sdpa";  // of a config.json
  bool pack = false;               // of a config.json: it takes positions, which begin anew with each document
  bool padded = false;             // of a config.json: it takes an attention_mask
  std::string autocast = "";       // what the forward is cast to; "": nothing
  std::string load_in = "";  // how linear layers' weights are held: a word of config::kQuantizations; "": as they are
  std::string lora = "";     // the adapter, as config::parse_lora takes it; "": the model itself is trained
};

enum class Attention { sdpa, eager, flash_varlen };
Attention parse_attention(const std::string& text);  // UsageError with the valid names

class FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  virtual bool claims(const Probe& probe) const = 0;
  // The model in training mode, on the device, without a loss. UsageError, one line each, for what cannot be trained.
  virtual program::Program lower(const Source& source) const = 0;
};

const std::vector<std::unique_ptr<const FrontEnd>>& front_ends();

// By the front end whose form it is, with its adapter. UsageError that names a file for what it is, with what to do
// instead.
program::Program lower(const Source& source);

}  // namespace memtune::frontend
