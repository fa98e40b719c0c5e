#include "core/program/lowering.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <unordered_map>
#include <variant>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/program/liveness.h"
#include "core/program/op_class.h"

namespace memtune::program {
namespace {

namespace jit = torch::jit;
namespace attr = c10::attr;
using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;

// What is known of a graph value while lowering: a value at run time, or a module, a function or a tuple that exists
// only here.
struct Known;
struct ModuleRef {
  ObjectPtr object;
  std::string path;
};
struct TupleRef {
  std::vector<Known> elements;
  c10::TypePtr type;
};
struct FunctionRef {
  jit::Function* function;
};
struct Known {
  std::variant<Slot, ModuleRef, TupleRef, FunctionRef> what;
};

std::string class_name(const c10::TypePtr& type) {
  auto cls = type->cast<c10::ClassType>();
  return cls && cls->name() ? cls->name()->name() : "";
}

const std::vector<std::string> kLosses = {"next_token", "cross_entropy", "mse", "returned"};

const char* const kLossSource = R"(
def next_token(output, target):
    return torch.cross_entropy_loss(output[:, :-1].flatten(0, 1).float(), target[:, 1:].flatten())
def cross_entropy(output, target):
    return torch.cross_entropy_loss(output.float(), target)
def mse(output, target):
    return torch.mse_loss(output.float(), target.float())
)";

class Lowering {
 public:
  Lowering(Program& program, c10::Device device) : program_(program), device_(device) {}

  // Inlines `function`'s graph into `body`; the answers are its outputs.
  std::vector<Known> inline_graph(jit::Function& function, const std::vector<Known>& arguments, int call, Body& body) {
    auto* graph_function = jit::tryToGraphFunction(function);
    if (!graph_function) throw UsageError("cannot run " + function.name() + ": it has no TorchScript body");
    graph_function->ensure_defined();
    auto graph = graph_function->graph();
    if (graph->inputs().size() != arguments.size())
      throw UsageError("cannot run " + function.name() + ": called with " + std::to_string(arguments.size()) +
                       " arguments, it has " + std::to_string(graph->inputs().size()));
    for (size_t i = 0; i < arguments.size(); ++i) known_[graph->inputs()[i]] = arguments[i];
    lower_nodes(graph->block(), call, body);
    return gather(graph->outputs());
  }

  Slot new_slot() {
    program_.constants.emplace_back();
    program_.is_constant.push_back(false);
    return program_.slots++;
  }

  Slot constant(c10::IValue value) {
    Slot slot = new_slot();
    program_.constants[slot] = std::move(value);
    program_.is_constant[slot] = true;
    return slot;
  }

  // The run-time value of `known`, packing a tuple when it has to exist.
  Slot slot_of(const Known& known, const jit::Node* user, int call, Body& body) {
    if (auto* slot = std::get_if<Slot>(&known.what)) return *slot;
    if (auto* module = std::get_if<ModuleRef>(&known.what)) return constant(c10::IValue(module->object));
    auto* tuple = std::get_if<TupleRef>(&known.what);
    if (!tuple) throw refused(user, "a function is used as a value");
    Op op = start(OpKind::tuple, user, call);
    op.name = "prim::TupleConstruct";
    for (const Known& element : tuple->elements) op.inputs.push_back(slot_of(element, user, call, body));
    Slot result = new_slot();
    op.outputs.push_back(result);
    body.ops.push_back(std::move(op));
    return result;
  }

  // Element `index` of an answer that may be a tuple known here or a run-time one.
  Known element(const Known& known, const c10::TypePtr& type, int64_t index, int call, Body& body) {
    if (auto* tuple = std::get_if<TupleRef>(&known.what)) return tuple->elements.at(index);
    if (type->kind() != c10::TypeKind::TupleType) return known;
    Op op = start(OpKind::tuple_index, nullptr, call);
    op.name = "prim::TupleIndex";
    op.index = index;
    op.inputs.push_back(std::get<Slot>(known.what));
    op.outputs.push_back(new_slot());
    Known result{op.outputs[0]};
    body.ops.push_back(std::move(op));
    return result;
  }

 private:
  static UsageError refused(const jit::Node* node, const std::string& why) {
    std::string where = node ? source_of(node) : "";
    return UsageError("cannot run " + (node ? std::string(node->kind().toQualString()) : std::string("the model")) +
                      (where.empty() ? "" : " at " + where) + ": " + why);
  }

  Op start(OpKind kind, const jit::Node* node, int call) {
    Op op;
    op.kind = kind;
    op.node = node;
    op.call = call;
    if (node) op.name = node->kind().toQualString();
    return op;
  }

  template <typename Values>
  std::vector<Known> gather(const Values& values) {
    std::vector<Known> result;
    for (auto* value : values) result.push_back(known_.at(value));
    return result;
  }

  void lower_nodes(const jit::Block* block, int call, Body& body) {
    for (const jit::Node* node : block->nodes()) lower_node(node, call, body);
  }

  void lower_node(const jit::Node* node, int call, Body& body) {
    namespace prim = c10::prim;
    auto input = [&](size_t i) -> const Known& { return known_.at(node->input(i)); };
    switch (node->kind()) {
      case prim::Constant: return lower_constant(node);
      case prim::GetAttr: return lower_get_attribute(node, call, body);
      case prim::SetAttr: {
        Op op = start(OpKind::set_attribute, node, call);
        if (auto* module = std::get_if<ModuleRef>(&input(0).what)) {
          op.object = module->object;
          op.inputs = {slot_of(input(1), node, call, body)};
        } else {
          op.inputs = {slot_of(input(0), node, call, body), slot_of(input(1), node, call, body)};
        }
        body.ops.push_back(std::move(op));
        return;
      }
      case prim::CallMethod: return lower_call_method(node, call, body);
      case prim::CallFunction: {
        auto* function = std::get_if<FunctionRef>(&input(0).what);
        if (!function) throw refused(node, "the function is not known before it runs");
        auto arguments = gather(node->inputs().slice(1));
        return bind(node, inline_graph(*function->function, arguments, call, body));
      }
      case prim::fork: {  // run in place: its results are there at once
        auto graph = node->g(attr::Subgraph);
        for (size_t i = 0; i < node->inputs().size(); ++i) known_[graph->inputs()[i]] = input(i);
        lower_nodes(graph->block(), call, body);
        return bind(node, gather(graph->outputs()));
      }
      case c10::aten::wait:
      case prim::unchecked_cast: known_[node->output()] = input(0); return;
      case c10::aten::warn: return;
      case prim::TupleConstruct:
        known_[node->output()] = Known{TupleRef{gather(node->inputs()), node->output()->type()}};
        return;
      case prim::TupleUnpack:
        if (auto* tuple = std::get_if<TupleRef>(&input(0).what)) return bind(node, std::vector<Known>(tuple->elements));
        return emit(OpKind::tuple_unpack, node, call, body);
      case prim::TupleIndex: return lower_tuple_index(node, call, body);
      case prim::TupleSlice: {
        auto* tuple = std::get_if<TupleRef>(&input(0).what);
        if (!tuple) throw refused(node, "a slice of a tuple that is only known at run time");
        auto begin = tuple->elements.begin();
        known_[node->output()] =
            Known{TupleRef{{begin + node->i(attr::beg), begin + node->i(attr::end)}, node->output()->type()}};
        return;
      }
      case prim::ListConstruct: return emit(OpKind::list, node, call, body);
      case prim::DictConstruct: return emit(OpKind::dict, node, call, body);
      case prim::ListUnpack: return emit(OpKind::list_unpack, node, call, body);
      case prim::CreateObject: return emit(OpKind::create_object, node, call, body);
      case prim::isinstance: return emit(OpKind::is_instance, node, call, body);
      case prim::Uninitialized: return emit(OpKind::uninitialized, node, call, body);
      case prim::Enter:
        if (is_autocast(node)) return emit(OpKind::enter, node, call, body);
        return lower_context(node, "__enter__", 0, call, body);
      case prim::Exit:
        if (is_autocast(node)) return emit(OpKind::exit, node, call, body);
        return lower_context(node, "__exit__", 3, call, body);
      case prim::If: return lower_branch(node, call, body);
      case prim::Loop: return lower_loop(node, call, body);
      default: return lower_operator(node, call, body);
    }
  }

  void bind(const jit::Node* node, std::vector<Known> results) {
    for (size_t i = 0; i < node->outputs().size(); ++i) known_[node->output(i)] = std::move(results.at(i));
  }

  void emit(OpKind kind, const jit::Node* node, int call, Body& body) {
    Op op = start(kind, node, call);
    for (auto* value : node->inputs()) op.inputs.push_back(slot_of(known_.at(value), node, call, body));
    add_outputs(op, node->outputs());
    body.ops.push_back(std::move(op));
  }

  template <typename Values>
  void add_outputs(Op& op, const Values& values) {
    for (auto* value : values) {
      op.outputs.push_back(new_slot());
      known_[value] = Known{op.outputs.back()};
    }
  }

  void lower_constant(const jit::Node* node) {
    const jit::Value* value = node->output();
    if (value->type()->kind() == c10::TypeKind::FunctionType) {
      known_[value] = Known{FunctionRef{value->type()->expectRef<c10::FunctionType>().function()}};
      return;
    }
    auto constant_value = jit::toIValue(value);
    if (!constant_value) throw refused(node, "a constant that cannot be read");
    known_[value] = Known{constant(on_device(*constant_value))};
  }

  // A trace bakes in where it ran; here it runs on device_.
  c10::IValue on_device(const c10::IValue& value) const {
    if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_meta())
      return value.toTensor().to(device_);
    if (value.isDevice() && !value.toDevice().is_meta()) return device_;
    return value;
  }

  void lower_get_attribute(const jit::Node* node, int call, Body& body) {
    const std::string& name = node->s(attr::name);
    const Known& holder = known_.at(node->input(0));
    if (auto* module = std::get_if<ModuleRef>(&holder.what)) {
      c10::IValue value = module->object->getAttr(name);
      if (value.isModule()) {
        std::string path = module->path.empty() ? name : module->path + "." + name;
        known_[node->output()] = Known{ModuleRef{value.toObject(), path}};
        return;
      }
      Op op = start(OpKind::get_attribute, node, call);
      op.object = module->object;
      add_outputs(op, node->outputs());
      body.ops.push_back(std::move(op));
      return;
    }
    emit(OpKind::get_attribute, node, call, body);
  }

  void lower_call_method(const jit::Node* node, int call, Body& body) {
    const std::string& name = node->s(attr::name);
    const Known& self = known_.at(node->input(0));
    auto arguments = gather(node->inputs());
    if (auto* module = std::get_if<ModuleRef>(&self.what)) {
      auto type = module->object->type();
      program_.calls.push_back({module->path, class_name(type), call});
      int inner = static_cast<int>(program_.calls.size()) - 1;
      return bind(node, inline_graph(type->getMethod(name), arguments, inner, body));
    }
    auto type = node->input(0)->type()->cast<c10::ClassType>();
    if (!type) throw refused(node, "the object's class is not known before it runs");
    bind(node, inline_graph(type->getMethod(name), arguments, call, body));
  }

  static bool is_autocast(const jit::Node* node) { return class_name(node->input(0)->type()) == "autocast"; }

  // no_grad, record_function and a model's own: their methods, with None for what __exit__ is told of an exception.
  void lower_context(const jit::Node* node, const char* method, int nones, int call, Body& body) {
    auto type = node->input(0)->type()->cast<c10::ClassType>();
    if (!type) throw refused(node, "the context manager's class is not known before it runs");
    auto arguments = gather(node->inputs());
    for (int i = 0; i < nones; ++i) arguments.push_back(Known{constant(c10::IValue())});
    bind(node, inline_graph(type->getMethod(method), arguments, call, body));
  }

  void lower_tuple_index(const jit::Node* node, int call, Body& body) {
    auto index = jit::toIValue(node->input(1));
    if (!index || !index->isInt()) throw refused(node, "a tuple index that is only known at run time");
    const Known& tuple = known_.at(node->input(0));
    int64_t i = index->toInt();
    if (auto* parts = std::get_if<TupleRef>(&tuple.what)) {
      if (i < 0) i += static_cast<int64_t>(parts->elements.size());
      known_[node->output()] = parts->elements.at(i);
      return;
    }
    Op op = start(OpKind::tuple_index, node, call);
    op.index = i;
    op.inputs = {slot_of(tuple, node, call, body)};
    add_outputs(op, node->outputs());
    body.ops.push_back(std::move(op));
  }

  Body lower_body(const jit::Block* block, const jit::Node* owner, int call) {
    Body inner;
    for (auto* value : block->inputs()) {
      inner.inputs.push_back(new_slot());
      known_[value] = Known{inner.inputs.back()};
    }
    lower_nodes(block, call, inner);
    for (auto* value : block->outputs()) inner.outputs.push_back(slot_of(known_.at(value), owner, call, inner));
    return inner;
  }

  void lower_branch(const jit::Node* node, int call, Body& body) {
    Op op = start(OpKind::branch, node, call);
    op.inputs = {slot_of(known_.at(node->input(0)), node, call, body)};
    for (auto* block : node->blocks()) op.bodies.push_back(lower_body(block, node, call));
    add_outputs(op, node->outputs());
    body.ops.push_back(std::move(op));
  }

  void lower_loop(const jit::Node* node, int call, Body& body) {
    Op op = start(OpKind::loop, node, call);
    for (auto* value : node->inputs()) op.inputs.push_back(slot_of(known_.at(value), node, call, body));
    op.bodies.push_back(lower_body(node->blocks()[0], node, call));
    add_outputs(op, node->outputs());
    body.ops.push_back(std::move(op));
  }

  void lower_operator(const jit::Node* node, int call, Body& body) {
    const jit::Operator* known_operator = node->maybeOperator();
    if (!known_operator) throw refused(node, "memtune has no such operator");
    Op op = start(OpKind::call, node, call);
    const c10::FunctionSchema& schema = known_operator->schema();
    op.operation = node->getOperation();
    op.vararg = schema.is_vararg();
    for (const c10::Argument& argument : schema.arguments())
      op.writes.push_back(argument.alias_info() && argument.alias_info()->isWrite());
    if (auto handle = c10::Dispatcher::singleton().findSchema(schema.operator_name())) op.handle = *handle;
    classify(op, schema);
    for (auto* value : node->inputs()) op.inputs.push_back(slot_of(known_.at(value), node, call, body));
    add_outputs(op, node->outputs());
    body.ops.push_back(std::move(op));
  }

  Program& program_;
  c10::Device device_;
  std::unordered_map<const jit::Value*, Known> known_;
};

// What the loss reads out of the model's answer: a tensor as it is, the first of a tuple, "logits" of a dict.
Known answer(Lowering& lowering, Program& program, const Known& output, const c10::TypePtr& type, Loss loss) {
  if (type->kind() != c10::TypeKind::DictType) return lowering.element(output, type, 0, 0, program.body);
  Op op;
  op.name = "aten::__getitem__";
  auto operators = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("aten::__getitem__"));
  for (auto& candidate : operators)
    if (candidate->schema().overload_name() == "Dict_str") op.operation = candidate->getOperation();
  Slot key = lowering.constant(std::string(loss == Loss::returned ? "loss" : "logits"));
  op.inputs = {std::get<Slot>(output.what), key};
  op.outputs = {lowering.new_slot()};
  Known result{op.outputs[0]};
  program.body.ops.push_back(std::move(op));
  return result;
}

bool takes_tensor(const c10::Argument& argument) { return c10::TensorType::get()->isSubtypeOf(*argument.type()); }

// What is no tensor cannot be given: it stays as forward has it.
c10::IValue default_of(const c10::Argument& argument) {
  if (argument.default_value()) return *argument.default_value();
  throw UsageError("forward's argument '" + argument.name() + "' is a " + argument.type()->annotation_str() +
                   " without a default: memtune gives a model tensors only");
}

void number_ops(Body& body, int& next) {
  for (Op& op : body.ops) {
    op.id = next++;
    for (Body& inner : op.bodies) number_ops(inner, next);
  }
}

}  // namespace

Loss parse_loss(const std::string& text) {
  for (size_t i = 0; i < kLosses.size(); ++i)
    if (text == kLosses[i]) return static_cast<Loss>(i + 1);
  throw UsageError(unknown_name("loss", text, kLosses));
}

std::string to_string(Loss loss) { return loss == Loss::none ? "none" : kLosses[static_cast<size_t>(loss) - 1]; }

Program lower(const torch::jit::Module& module, Loss loss, const std::string& target, c10::Device device) {
  Program program;
  program.module = module;
  Lowering lowering(program, device);
  auto& forward = module.get_method("forward").function();
  const auto& schema = forward.getSchema();

  program.calls.push_back({"", class_name(module.type()), -1});
  std::vector<Known> arguments = {Known{ModuleRef{module._ivalue(), ""}}};
  Slot target_slot = -1;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (!takes_tensor(argument)) {
      arguments.push_back(Known{lowering.constant(default_of(argument))});
      continue;
    }
    Slot slot = lowering.new_slot();
    arguments.push_back(Known{slot});
    program.body.inputs.push_back(slot);
    program.input_names.push_back(argument.name());
    if (argument.name() == target) target_slot = slot;
  }
  if (target_slot < 0 && !target.empty()) {
    target_slot = lowering.new_slot();
    program.body.inputs.push_back(target_slot);
    program.input_names.push_back(target);
  }

  Known output = lowering.inline_graph(forward, arguments, 0, program.body).at(0);
  auto type = jit::toGraphFunction(forward).graph()->outputs()[0]->type();
  if (loss != Loss::none) output = answer(lowering, program, output, type, loss);
  if (loss != Loss::none && loss != Loss::returned) {
    program.loss_unit = std::make_shared<jit::CompilationUnit>();
    program.loss_unit->define(std::nullopt, kLossSource, jit::nativeResolver(), nullptr);
    program.calls.push_back({"loss", "loss", 0});
    int call = static_cast<int>(program.calls.size()) - 1;
    auto& function = program.loss_unit->get_function(to_string(loss));
    output = lowering.inline_graph(function, {output, Known{target_slot}}, call, program.body).at(0);
  }
  program.body.outputs = {lowering.slot_of(output, nullptr, 0, program.body)};
  number_ops(program.body, program.ops);
  find_last_uses(program);
  return program;
}

}  // namespace memtune::program
