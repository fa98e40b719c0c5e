// What a model holds between its runs: parameters, buffers, and the objects whose attributes its ops read and write.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <utility>
#include <vector>

namespace memtune::program {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct State {
  NamedTensors parameters;  // tied ones once, in a stable order; those that require grad are trained
  NamedTensors buffers;     // of a model without an object, whose own may be replaced by others while it runs
  std::vector<std::pair<std::string, std::string>> ties;  // another name of a parameter, and the one it is listed under
  c10::IValue object;                                     // None: no op reads an attribute
  bool adapted = false;  // what is not trained is another file's: a saved state does without
};

}  // namespace memtune::program
