// The state of a model between runs: parameters, buffers, and the objects whose attributes its ops read and write.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/program/host_weights_while_model_loads.h"

namespace memtune::program {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// This rank's part of a parameter: a contiguous range of its elements.
struct ParameterShard {
  std::string name;
  at::Tensor tensor;  // flat
  int64_t begin = 0;  // index of the first element in the parameter
};

struct LocalParameterShards {
  int rank = 0, ranks = 1;
  std::vector<ParameterShard> pieces;  // this rank's; a parameter may have none
};

struct ModelParametersAndBuffers {
  NamedTensors parameters;  // tied ones once, in a stable order; those that require grad are trained
  NamedTensors buffers;     // empty if there is an object, which may replace its buffers while it runs
  std::vector<std::pair<std::string, std::string>> ties;      // another name of a tied parameter, and its listed name
  c10::IValue object;                                         // None: no op reads attributes
  std::optional<LocalParameterShards> shards = std::nullopt;  // nullopt: not sharded
  std::shared_ptr<HostWeightsWhileModelLoads> host_weights =
      nullptr;           // has bytes of parameters; null: they are on their device
  bool adapted = false;  // frozen parameters belong to another file; saved states omit them
};

}  // namespace memtune::program
