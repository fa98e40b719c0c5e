#include "core/model/frontend/torchscript/lowering.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <limits>
#include <unordered_map>

#include "core/base/error.h"
#include "core/model/frontend/torchscript/arguments.h"
#include "core/model/frontend/torchscript/constants.h"
#include "core/model/frontend/torchscript/runtime_or_lowering_time_value.h"
#include "core/model/program/interpreter.h"

namespace memtune::frontend {
namespace {

namespace jit = torch::jit;
namespace attr = c10::attr;
using program::OutputTree;

UsageError refused(const jit::Node* node, const std::string& why) {
  std::string where = source_of(node);
  return UsageError("cannot run " + std::string(node->kind().toQualString()) + (where.empty() ? "" : " at " + where) +
                    ": " + why);
}

class Lowering {
 public:
  Lowering(ProgramEmitter& emit, c10::Device device) : emit_(emit), device_(device) {}

  // Inlines `function`'s graph at the emitter's position and returns its outputs.
  std::vector<RuntimeOrLoweringTimeValue> inline_graph(jit::Function& function,
                                                       const std::vector<RuntimeOrLoweringTimeValue>& arguments) {
    auto* graph_function = jit::tryToGraphFunction(function);
    if (!graph_function) throw UsageError("cannot run " + function.name() + ": it has no TorchScript body");
    graph_function->ensure_defined();
    auto graph = graph_function->graph();
    if (graph->inputs().size() != arguments.size())
      throw UsageError("cannot run " + function.name() + ": called with " + std::to_string(arguments.size()) +
                       " arguments, it has " + std::to_string(graph->inputs().size()));
    for (size_t i = 0; i < arguments.size(); ++i) know(graph->inputs()[i], arguments[i]);
    lower_nodes(graph->block());
    return gather(graph->outputs());
  }

  OutputTree answer_of(const RuntimeOrLoweringTimeValue& known, const c10::TypePtr& type) {
    auto* tuple = std::get_if<LoweringTimeTuple>(&known.what);
    if (!tuple) return {value_of(known, nullptr).slot, type, {}};
    OutputTree answer{-1, type, {}};
    auto types = type->containedTypes();
    for (size_t i = 0; i < tuple->elements.size(); ++i)
      answer.elements.push_back(answer_of(tuple->elements[i], types.at(i)));
    return answer;
  }

 private:
  // The run-time value of `known`; packs a tuple into one.
  Value value_of(const RuntimeOrLoweringTimeValue& known, const jit::Node* user) {
    if (auto* value = std::get_if<Value>(&known.what)) return *value;
    if (auto* module = std::get_if<ModuleObjectAndPath>(&known.what))
      return emit_.constant(c10::IValue(module->object));
    auto* tuple = std::get_if<LoweringTimeTuple>(&known.what);
    if (!tuple) throw user ? refused(user, "a function is used as a value") : UsageError("the model returns code");
    Values elements;
    for (const RuntimeOrLoweringTimeValue& element : tuple->elements) elements.push_back(value_of(element, user));
    return emit_.tuple(elements);
  }

  const RuntimeOrLoweringTimeValue& input(const jit::Node* node, size_t i) const { return known_.at(node->input(i)); }

  Value value(const jit::Node* node, size_t i) { return value_of(input(node, i), node); }

  Values values(const jit::Node* node) {
    Values result;
    for (size_t i = 0; i < node->inputs().size(); ++i) result.push_back(value(node, i));
    return result;
  }

  template <typename Range>
  std::vector<RuntimeOrLoweringTimeValue> gather(const Range& range) const {
    std::vector<RuntimeOrLoweringTimeValue> result;
    for (auto* value : range) result.push_back(known_.at(value));
    return result;
  }

  void know(const jit::Value* value, RuntimeOrLoweringTimeValue known) {
    known_.insert_or_assign(value, std::move(known));
  }

  void bind(const jit::Node* node, std::vector<RuntimeOrLoweringTimeValue> results) {
    for (size_t i = 0; i < node->outputs().size(); ++i) know(node->output(i), std::move(results.at(i)));
  }

  void bind(const jit::Node* node, const Values& results) {
    for (size_t i = 0; i < node->outputs().size(); ++i)
      know(node->output(i), RuntimeOrLoweringTimeValue{results.at(i)});
  }

  void bind(const jit::Node* node, Value result) { know(node->output(), RuntimeOrLoweringTimeValue{result}); }

  void lower_nodes(const jit::Block* block) {
    for (const jit::Node* node : block->nodes()) {
      emit_.at(source_of(node));
      lower_node(node);
    }
  }

  void lower_node(const jit::Node* node) {
    namespace prim = c10::prim;
    const auto type = [&] { return node->output()->type(); };
    switch (node->kind()) {
      case prim::Constant: return lower_constant(node);
      case prim::GetAttr: return lower_get_attribute(node);
      case prim::SetAttr: return lower_set_attribute(node);
      case prim::CallMethod: return lower_call_method(node);
      case prim::CallFunction: return lower_call_function(node);
      case prim::fork: return lower_fork(node);
      case c10::aten::wait:
      case prim::unchecked_cast: know(node->output(), input(node, 0)); return;
      case c10::aten::warn: return;
      case prim::TupleConstruct:
        know(node->output(), RuntimeOrLoweringTimeValue{LoweringTimeTuple{gather(node->inputs())}});
        return;
      case prim::TupleUnpack: return lower_tuple_unpack(node);
      case prim::TupleIndex: return lower_tuple_index(node);
      case prim::TupleSlice: return lower_tuple_slice(node);
      case prim::ListConstruct: return bind(node, emit_.list(type(), values(node)));
      case prim::DictConstruct: return bind(node, emit_.dict(type(), values(node)));
      case prim::ListUnpack: return bind(node, emit_.unpack_list(value(node, 0), node->outputs().size()));
      case prim::CreateObject: return bind(node, emit_.create_object(type()));
      case prim::isinstance: return bind(node, emit_.is_instance(value(node, 0), node->tys(attr::types)));
      case prim::Uninitialized: return bind(node, emit_.uninitialized());
      case prim::Enter: return lower_enter(node);
      case prim::Exit: return lower_exit(node);
      case prim::If: return lower_branch(node);
      case prim::Loop: return lower_loop(node);
      case prim::RaiseException: return lower_raise(node);
      default: return lower_operator(node);
    }
  }

  void lower_constant(const jit::Node* node) {
    const jit::Value* value = node->output();
    if (value->type()->kind() == c10::TypeKind::FunctionType) {
      know(value, RuntimeOrLoweringTimeValue{JitFunctionRef{value->type()->expectRef<c10::FunctionType>().function()}});
      return;
    }
    auto constant_value = jit::toIValue(value);
    if (!constant_value) throw refused(node, "a constant that cannot be read");
    bind(node, emit_.constant(on_device(value, *constant_value, device_)));
  }

  void lower_get_attribute(const jit::Node* node) {
    const std::string& name = node->s(attr::name);
    auto* module = std::get_if<ModuleObjectAndPath>(&input(node, 0).what);
    if (!module) return bind(node, emit_.attribute(value(node, 0), name));
    c10::IValue held = module->object->getAttr(name);
    if (!held.isModule()) return bind(node, emit_.attribute(module->object, name));
    std::string path = module->path.empty() ? name : module->path + "." + name;
    know(node->output(), RuntimeOrLoweringTimeValue{ModuleObjectAndPath{held.toObject(), path}});
  }

  void lower_set_attribute(const jit::Node* node) {
    const std::string& name = node->s(attr::name);
    if (auto* module = std::get_if<ModuleObjectAndPath>(&input(node, 0).what))
      return emit_.set_attribute(module->object, name, value(node, 1));
    emit_.set_attribute(value(node, 0), name, value(node, 1));
  }

  void lower_call_method(const jit::Node* node) {
    const std::string& name = node->s(attr::name);
    auto arguments = gather(node->inputs());
    if (auto* module = std::get_if<ModuleObjectAndPath>(&input(node, 0).what)) {
      auto type = module->object->type();
      const ProgramEmitter::InRegion region(emit_, module->path, class_name(type));
      return bind(node, inline_graph(type->getMethod(name), arguments));
    }
    bind(node, inline_graph(method(node, name, "object"), arguments));
  }

  static jit::Function& method(const jit::Node* node, const std::string& name, const char* what) {
    auto type = node->input(0)->type()->cast<c10::ClassType>();
    if (!type) throw refused(node, std::string("the ") + what + "'s class is not known before it runs");
    return type->getMethod(name);
  }

  void lower_call_function(const jit::Node* node) {
    auto* function = std::get_if<JitFunctionRef>(&input(node, 0).what);
    if (!function) throw refused(node, "the function is not known before it runs");
    bind(node, inline_graph(*function->function, gather(node->inputs().slice(1))));
  }

  // Runs in place: the results are available at once.
  void lower_fork(const jit::Node* node) {
    auto graph = node->g(attr::Subgraph);
    for (size_t i = 0; i < node->inputs().size(); ++i) know(graph->inputs()[i], input(node, i));
    lower_nodes(graph->block());
    bind(node, gather(graph->outputs()));
  }

  // The interpreter implements "autocast", "no_grad" and "enable_grad". Other context managers (record_function, a
  // model's own) are inlined. Their __exit__ gets None for the exception arguments.
  static std::string own_region(const jit::Node* node) {
    auto type = node->input(0)->type()->cast<c10::ClassType>();
    if (!type || !type->name()) return "";
    const std::string& name = type->name()->name();
    const bool of_grad_mode = type->name()->prefix() == "__torch__.torch.autograd.grad_mode";
    return name == "autocast" || (of_grad_mode && (name == "no_grad" || name == "enable_grad")) ? name : "";
  }

  void lower_enter(const jit::Node* node) {
    const std::string region = own_region(node);
    if (region.empty())
      return bind(node, inline_graph(method(node, "__enter__", "context manager"), gather(node->inputs())));
    const Value manager = value(node, 0);
    if (region == "autocast")
      emit_.enter_autocast(emit_.attribute(manager, "device"), emit_.attribute(manager, "_enabled"),
                           emit_.attribute(manager, "fast_dtype"), emit_.constant(true));
    else
      emit_.enter_grad_mode(emit_.constant(region == "enable_grad"));
    bind(node, manager);
  }

  void lower_exit(const jit::Node* node) {
    if (!own_region(node).empty()) {
      emit_.leave();
      return bind(node, emit_.constant(c10::IValue()));
    }
    auto arguments = gather(node->inputs());
    const RuntimeOrLoweringTimeValue none{emit_.constant(c10::IValue())};
    arguments.insert(arguments.end(), 3, none);
    bind(node, inline_graph(method(node, "__exit__", "context manager"), arguments));
  }

  void lower_tuple_unpack(const jit::Node* node) {
    if (auto* tuple = std::get_if<LoweringTimeTuple>(&input(node, 0).what))
      return bind(node, std::vector<RuntimeOrLoweringTimeValue>(tuple->elements));
    bind(node, emit_.unpack_tuple(value(node, 0), node->outputs().size()));
  }

  void lower_tuple_index(const jit::Node* node) {
    auto index = jit::toIValue(node->input(1));
    if (!index || !index->isInt()) throw refused(node, "a tuple index that is only known at run time");
    int64_t i = index->toInt();
    auto* parts = std::get_if<LoweringTimeTuple>(&input(node, 0).what);
    if (!parts) return bind(node, emit_.tuple_element(value(node, 0), i));
    if (i < 0) i += static_cast<int64_t>(parts->elements.size());
    know(node->output(), parts->elements.at(i));
  }

  void lower_tuple_slice(const jit::Node* node) {
    auto* tuple = std::get_if<LoweringTimeTuple>(&input(node, 0).what);
    if (!tuple) throw refused(node, "a slice of a tuple that is only known at run time");
    auto begin = tuple->elements.begin();
    know(node->output(), {LoweringTimeTuple{{begin + node->i(attr::beg), begin + node->i(attr::end)}}});
  }

  Values lower_body(const jit::Block* block, const jit::Node* owner, const Values& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) know(block->inputs()[i], RuntimeOrLoweringTimeValue{inputs[i]});
    lower_nodes(block);
    Values results;
    for (auto* value : block->outputs()) results.push_back(value_of(known_.at(value), owner));
    return results;
  }

  void lower_branch(const jit::Node* node) {
    const auto body = [&](size_t i) { return [this, node, i] { return lower_body(node->blocks()[i], node, {}); }; };
    bind(node, emit_.branch(value(node, 0), body(0), body(1)));
  }

  void lower_loop(const jit::Node* node) {
    const Values inputs = values(node);
    const Values carried(inputs.begin() + 2, inputs.end());
    bind(node, emit_.loop(inputs[0], inputs[1], carried,
                          [&](const Values& taken) { return lower_body(node->blocks()[0], node, taken); }));
  }

  // inputs: the message, and the exception's class if the file has it.
  void lower_raise(const jit::Node* node) {
    const auto run = [where = source_of(node)](program::Stack& stack) {
      const std::string text = stack.at(0).isString() ? stack.at(0).toStringRef() : "";
      throw program::ModelRaisedError("it raises '" + text + "'" + (where.empty() ? "" : " at " + where));
    };
    emit_.call({node->kind().toQualString(), nullptr, run}, values(node), 0);
  }

  // True for x[:] of a tensor.
  static bool slices_all(const jit::Node* node) {
    if (node->kind() != c10::aten::slice || node->inputs().size() != 5 ||
        !node->input(0)->type()->isSubtypeOf(*c10::TensorType::get()))
      return false;
    const auto is = [node](size_t i, int64_t number) {
      const auto known = jit::toIValue(node->input(i));
      return known && (known->isInt() ? known->toInt() == number : known->isNone() && i != 4);
    };
    return is(2, 0) && is(3, std::numeric_limits<int64_t>::max()) && is(4, 1);
  }

  void lower_operator(const jit::Node* node) {
    if (slices_all(node)) return know(node->output(), input(node, 0));
    const jit::Operator* known = node->maybeOperator();
    if (!known) throw refused(node, "memtune has no such operator");
    const auto run = [operation = node->getOperation()](program::Stack& stack) mutable { operation(stack); };
    bind(node, emit_.call({node->kind().toQualString(), &known->schema(), run}, values(node), node->outputs().size()));
  }

  ProgramEmitter& emit_;
  c10::Device device_;
  std::unordered_map<const jit::Value*, RuntimeOrLoweringTimeValue> known_;
};

bool may_be_missing(const c10::Argument& argument) {
  return argument.default_value() && argument.default_value()->isNone();
}

void add_state(const jit::Module& module, program::ModelParametersAndBuffers& state) {
  std::unordered_map<const void*, std::string> seen;
  for (const auto& parameter : module.named_parameters()) {
    auto [known, is_new] = seen.emplace(parameter.value.unsafeGetTensorImpl(), parameter.name);
    if (is_new)
      state.parameters.emplace_back(parameter.name, parameter.value);
    else
      state.ties.emplace_back(parameter.name, known->second);
  }
  state.object = module._ivalue();
}

}  // namespace

program::Program lower_module(const jit::Module& module, c10::Device device, const std::vector<std::string>& given) {
  program::Program program;
  program.regions.push_back({"", class_name(module.type()), -1});
  add_state(module, program.state);
  ProgramEmitter emit(program);
  auto& forward = module.get_method("forward").function();
  const auto& arguments = forward.getSchema().arguments();
  check_arguments(forward.getSchema(), given);
  std::vector<RuntimeOrLoweringTimeValue> known = {
      RuntimeOrLoweringTimeValue{ModuleObjectAndPath{module._ivalue(), ""}}};
  for (size_t i = 1; i < arguments.size(); ++i)
    known.push_back(RuntimeOrLoweringTimeValue{takes_tensor(arguments[i])
                                                   ? emit.input(arguments[i].name(), may_be_missing(arguments[i]))
                                                   : emit.constant(value_of(arguments[i], given))});
  Lowering lowering(emit, device);
  const RuntimeOrLoweringTimeValue output = lowering.inline_graph(forward, known).at(0);
  program.answer = lowering.answer_of(output, jit::toGraphFunction(forward).graph()->outputs()[0]->type());
  return program;
}

}  // namespace memtune::frontend
