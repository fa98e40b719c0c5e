// A value of the graph while lowering: a run-time value, or a module, function or tuple that exists only then.
#pragma once

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <variant>
#include <vector>

#include "core/model/frontend/emitter.h"

namespace memtune::frontend {

struct LoweredValue;

struct ModuleRef {
  ObjectPtr object;
  std::string path;
};

struct TupleRef {
  std::vector<LoweredValue> elements;
};

struct JitFunctionRef {
  torch::jit::Function* function;
};

struct LoweredValue {
  std::variant<Value, ModuleRef, TupleRef, JitFunctionRef> what;
};

// "Block"; "" if the type is not a class.
std::string class_name(const c10::TypePtr& type);

// "model.py:42" in the author's file; "" if the model's file has no source lines.
std::string source_of(const torch::jit::Node* node);

}  // namespace memtune::frontend
