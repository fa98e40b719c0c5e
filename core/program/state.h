// What a model holds between its runs: parameters, buffers, and the objects whose attributes its ops read and write.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace memtune::program {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// What one of several ranks has of a parameter: numbers that lie behind each other in the parameter's memory.
struct ParameterPiece {
  std::string name;
  at::Tensor tensor;  // flat
  int64_t begin = 0;  // elements of that memory before it
};

struct Shards {
  int rank = 0, ranks = 1;
  std::vector<ParameterPiece> pieces;  // this rank's; it may have none of a parameter
};

struct State {
  NamedTensors parameters;  // tied ones once, in a stable order; those that require grad are trained
  NamedTensors buffers;     // of a model without an object, whose own may be replaced by others while it runs
  std::vector<std::pair<std::string, std::string>> ties;  // another name of a parameter, and the one it is listed under
  c10::IValue object;                                     // None: no op reads an attribute
  std::optional<Shards> shards =
      std::nullopt;      // of the parameters, whose own memory comes and goes; none: they are all here
  bool adapted = false;  // what is not trained is another file's: a saved state does without
};

}  // namespace memtune::program
