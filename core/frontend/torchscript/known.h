// What is known of a graph's value while it is lowered: a value at run time, or a module, a function or a tuple that
// exists only then.
#pragma once

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <variant>
#include <vector>

#include "core/frontend/emitter.h"

namespace memtune::frontend {

struct Known;

struct ModuleRef {
  ObjectPtr object;
  std::string path;
};

struct TupleRef {
  std::vector<Known> elements;
};

struct FunctionRef {
  torch::jit::Function* function;
};

struct Known {
  std::variant<Value, ModuleRef, TupleRef, FunctionRef> what;
};

// "Block"; "" for what is no class.
std::string class_name(const c10::TypePtr& type);

// "model.py:42" as the model's author knows it; "" when the file does not say.
std::string source_of(const torch::jit::Node* node);

}  // namespace memtune::frontend
