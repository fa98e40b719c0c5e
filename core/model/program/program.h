// A model as ops in nested bodies. All calls are inlined, tuples taken apart, modules resolved, and the last use of
// every value is known. Front ends write it (core/model/frontend), the interpreter runs it, facts() describes it. An op
// holds all that is needed to run it; nothing of the model's original format is kept.
//
// A slot is a place for one value in the interpreter's environment. Constants have slots of their own that never die.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/program/state.h"
#include "core/model/pt2/input_tensor_description.h"
#include "core/plan/facts/operator_class_and_argument_roles.h"

namespace memtune::program {

using Slot = int;
using Stack = std::vector<c10::IValue>;  // an op takes its inputs from it and leaves its outputs on it

// One run of a module's body. Regions form a tree; an op belongs to the innermost one.
struct ModuleCallTreeNode {
  std::string path;  // module path, "layers.3.attn"; functions have the path of their caller
  std::string type;  // class name as the author wrote it: "Block"
  int parent = -1;
};

struct ProgramOrControlFlowBody;

enum class InterpreterInstructionKind {
  call,           // an operator, by Op::run
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
  enter_grad_mode,  // inputs: enabled
  enter_autocast,   // inputs: device, enabled, dtype, whether casts are cached
  leave,            // leaves the scope that was entered last
  branch,
  loop,
};

struct Op {
  int id = 0;  // position in program order, bodies included
  InterpreterInstructionKind kind = InterpreterInstructionKind::call;
  std::string name;    // "aten::linear"
  std::string source;  // "model.py:42" in the author's file; "" if the model's file has none
  int region = 0;      // index into Program::regions

  std::function<void(Stack&)> run;            // kind == call
  std::optional<c10::OperatorHandle> handle;  // when the dispatcher knows it
  bool vararg = false;                        // `run` takes the number of inputs as its last input
  std::vector<bool> writes;                   // arguments written in place, by the schema
  std::vector<bool> may_alias_outputs;        // arguments that an output may alias, by the schema
  bool returns_alias = false;                 // an output aliases an argument or something that it contains
  bool random = false;                        // draws from the device's generator
  plan::OpClass op_class = plan::OpClass::host;
  std::vector<int> updates_statistics;  // see plan::OperatorClassAndArgumentRoles

  c10::TypePtr type;                               // list, dict, create_object: type of the result
  std::vector<c10::TypePtr> types;                 // is_instance: any of these
  std::string attribute;                           // get_attribute, set_attribute
  c10::intrusive_ptr<c10::ivalue::Object> object;  // get_attribute, set_attribute of a module
  int64_t index = 0;                               // tuple_index

  std::vector<Slot> inputs, outputs;
  std::vector<bool> last_use;                    // inputs[i] dies here, so it is moved
  std::vector<Slot> dead;                        // slots that die after the op (unused outputs, captures)
  std::vector<ProgramOrControlFlowBody> bodies;  // branch: then, else; loop: one body
};

struct ProgramOrControlFlowBody {
  std::vector<Slot> inputs;
  std::vector<Op> ops;
  std::vector<Slot> outputs;
  std::vector<bool> output_last_use;  // outputs[i] dies with the body, so it is moved
  std::vector<Slot> dead_at_entry;    // outer slots that only the other branch uses
};

struct ModelOrLossInputDeclaration {
  std::string name;
  bool optional = false;                                        // None if not given
  bool of_model = true;                                         // false: only the loss uses it
  std::optional<model::InputTensorDescription> described = {};  // if the model's file describes it
};

// The model's output: a value, or a tuple whose elements are known.
struct OutputTree {
  Slot slot = -1;     // -1: a tuple of `elements`
  c10::TypePtr type;  // of the value in `slot`
  std::vector<OutputTree> elements;
  std::string name = {};  // name of an element: "logits"; "": none, use its position
};

struct Program {
  std::string kind;  // "scripted" | "traced" | "exported" | "profile" | "config"
  ModelParametersAndBuffers state;
  ProgramOrControlFlowBody body;
  std::vector<ModelOrLossInputDeclaration> inputs;  // in the order of body.inputs
  OutputTree answer;                                // of the model, before any loss
  std::vector<c10::IValue> constants;               // by slot; None if the slot is not a constant
  std::vector<bool> is_constant;
  std::vector<ModuleCallTreeNode> regions;
  bool has_head = true;                                 // its last linear layer gives logits or scores
  int64_t longest = 0;                                  // longest sequence that it is correct for; 0: any
  std::vector<std::string> notes;                       // notes for the user
  std::function<void(Program&, const Op&)> as_written;  // called with each op before it is added; may be empty
  std::shared_ptr<std::string> answer_note;  // set by a run: the output part that the loss used, if not chosen
  int slots = 0;
  int ops = 0;

  const std::string& path(const Op& op) const { return regions[op.region].path; }
};

std::vector<std::string> input_names(const Program& program);

}  // namespace memtune::program
