// A value of the graph while lowering: a run-time value, or a module, function or tuple that exists only then.
#pragma once

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <variant>
#include <vector>

#include "core/model/frontend/program_emitter.h"

namespace memtune::frontend {

struct RuntimeOrLoweringTimeValue;

struct ModuleObjectAndPath {
  ObjectPtr object;
  std::string path;
};

struct LoweringTimeTuple {
  std::vector<RuntimeOrLoweringTimeValue> elements;
};

struct JitFunctionRef {
  torch::jit::Function* function;
};

struct RuntimeOrLoweringTimeValue {
  std::variant<Value, ModuleObjectAndPath, LoweringTimeTuple, JitFunctionRef> what;
};

// "Block"; "" if the type is not a class.
std::string class_name(const c10::TypePtr& type);

// "model.py:42" in the author's file; "" if the model's file has no source lines.
std::string source_of(const torch::jit::Node* node);

}  // namespace memtune::frontend
