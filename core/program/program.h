// A model as ops in nested bodies: every call inlined, tuples taken apart, modules resolved, and the last use of every
// value known. Front ends write it (core/frontend), the interpreter runs it, facts() describes it. An op holds all that
// running it takes; of the form that the model came in nothing is left.
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

#include "core/config/input_description.h"
#include "core/config/op_traits.h"
#include "core/program/state.h"

namespace memtune::program {

using Slot = int;
using Stack = std::vector<c10::IValue>;  // an op takes its inputs from it and leaves its outputs on it

// One run of a module's body. Regions form a tree; an op belongs to the innermost one.
struct ModuleRegion {
  std::string path;  // module path, "layers.3.attn"; functions have their caller's
  std::string type;  // class name as the author wrote it: "Block"
  int parent = -1;
};

struct Body;

enum class OpKind {
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
  enter_grad_mode,  // inputs: whether gradients are on
  enter_autocast,   // inputs: device, whether it is on, dtype, whether casts are cached
  leave,            // what was entered last
  branch,
  loop,
};

struct Op {
  int id = 0;  // position in program order, bodies included
  OpKind kind = OpKind::call;
  std::string name;    // "aten::linear"
  std::string source;  // "model.py:42" as the model's author knows it; "" when the file does not say
  int region = 0;      // index into Program::regions

  std::function<void(Stack&)> run;            // kind == call
  std::optional<c10::OperatorHandle> handle;  // when the dispatcher knows it
  bool vararg = false;                        // `run` wants the number of its inputs last
  std::vector<bool> writes;                   // arguments written in place, by the schema
  std::vector<bool> hands_on;                 // arguments that an output may be, or be a view of, by the schema
  bool returns_alias = false;                 // of an argument, or of something that it holds
  bool random = false;                        // draws from the device's generator
  config::OpClass op_class = config::OpClass::host;
  std::vector<int> moves_statistics;  // see config::OpTraits

  c10::TypePtr type;                               // list, dict, create_object: of what is made
  std::vector<c10::TypePtr> types;                 // is_instance: any of these
  std::string attribute;                           // get_attribute, set_attribute
  c10::intrusive_ptr<c10::ivalue::Object> object;  // the same, of a module
  int64_t index = 0;                               // tuple_index

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

struct Input {
  std::string name;
  bool optional = false;                                   // None when it is not given
  bool of_model = true;                                    // false: only the loss takes it
  std::optional<config::InputDescription> described = {};  // where the model's file does
};

// What the model answers with: a value, or a tuple whose elements are known one by one.
struct Answer {
  Slot slot = -1;     // -1: a tuple of `elements`
  c10::TypePtr type;  // of the value in `slot`
  std::vector<Answer> elements;
  std::string name = {};  // of an element: "logits"; "": its position
};

struct Program {
  std::string kind;  // "scripted" | "traced" | "exported" | "profile" | "config"
  State state;
  Body body;
  std::vector<Input> inputs;           // in the order of body.inputs
  Answer answer;                       // of the model, before any loss
  std::vector<c10::IValue> constants;  // by slot; None where the slot is no constant
  std::vector<bool> is_constant;
  std::vector<ModuleRegion> regions;
  int64_t longest = 0;                                  // sequence that it is right for; 0: any
  std::vector<std::string> notes;                       // what the person should know
  std::function<void(Program&, const Op&)> as_written;  // sees each op before it is added; empty: nobody does
  std::shared_ptr<std::string> answer_note;  // once it has run: which of several parts the loss took, if nobody said
  int slots = 0;
  int ops = 0;

  const std::string& path(const Op& op) const { return regions[op.region].path; }
};

std::vector<std::string> input_names(const Program& program);

}  // namespace memtune::program
