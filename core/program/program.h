// A model lowered to ops in nested bodies: TorchScript's graph with every call inlined, tuples taken apart, modules
// resolved, and the last use of every value known. The interpreter runs it; facts() describes it.
//
// A slot is a place for one value in the interpreter's environment. Constants have slots of their own that never die.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/program_facts.h"

namespace memtune::program {

using Slot = int;

// One run of a module's (or function's) body. Calls form a tree; an op belongs to the innermost one.
struct Call {
  std::string path;  // module path, "layers.3.attn"; functions have their caller's
  std::string type;  // class name as the author wrote it: "Block"
  int parent = -1;
};

struct Body;

enum class OpKind {
  call,           // a registered operator
  get_attribute,  // of `object`, or of the object in inputs[0]
  set_attribute,
  list,
  dict,
  tuple,
  list_unpack,
  tuple_unpack,
  tuple_index,
  create_object,
  is_instance,
  uninitialized,
  enter,  // autocast; other context managers are inlined
  exit,
  branch,  // prim::If
  loop,    // prim::Loop
};

struct Op {
  int id = 0;  // position in program order, bodies included
  OpKind kind = OpKind::call;
  const torch::jit::Node* node = nullptr;
  mutable torch::jit::Operation operation{nullptr};  // kind == call; its call operator is not const
  std::optional<c10::OperatorHandle> handle;         // when the dispatcher knows it
  std::vector<bool> writes;                          // arguments written in place, by the schema
  bool vararg = false;
  bool random = false;  // draws from the device's generator
  config::OpClass op_class = config::OpClass::host;
  std::vector<int> moves_statistics;               // see config::OpTraits
  std::string name;                                // "aten::linear"
  c10::intrusive_ptr<c10::ivalue::Object> object;  // get/set_attribute of a module
  int64_t index = 0;                               // tuple_index
  int call = 0;                                    // index into Program::calls
  std::vector<Slot> inputs, outputs;
  std::vector<bool> last_use;  // inputs[i] dies here: it is moved
  std::vector<Slot> dead;      // slots that die when the op is done (unused outputs, captures)
  std::vector<Body> bodies;    // branch: then, else; loop: one
};

struct Body {
  std::vector<Slot> inputs;
  std::vector<Op> ops;
  std::vector<Slot> outputs;
  std::vector<bool> output_last_use;  // outputs[i] dies with the body: it is moved
  std::vector<Slot> dead_at_entry;    // outer slots that only the other branch uses
};

struct Program {
  torch::jit::Module module;
  Body body;                             // inputs: forward's arguments, then the target when the loss needs one
  std::vector<std::string> input_names;  // in the order of body.inputs
  std::vector<c10::IValue> constants;    // by slot; None where the slot is no constant
  std::vector<bool> is_constant;
  std::vector<Call> calls;
  std::vector<std::string> notes;
  std::shared_ptr<torch::jit::CompilationUnit> loss_unit;  // keeps the loss's graph alive
  int slots = 0;
  int ops = 0;

  const std::string& path(const Op& op) const { return calls[op.call].path; }
};

// "model.py:42" as the model's author knows it; "" when the file does not say.
std::string source_of(const torch::jit::Node* node);

// Calls whose ops form the blocks, in program order: those whose path matches the glob `blocks`, or, when it is empty,
// those of the class that covers most of the program (containers and single-op modules aside). UsageError when a given
// glob matches nothing.
std::vector<int> find_blocks(const Program& program, const std::string& blocks);

config::ProgramFacts facts(const Program& program, const std::vector<int>& blocks);

}  // namespace memtune::program
