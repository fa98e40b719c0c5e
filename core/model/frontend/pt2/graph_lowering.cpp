#include "core/model/frontend/pt2/graph_lowering.h"

#include <ATen/autocast_mode.h>

#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/model/frontend/pt2/host_functions.h"
#include "core/model/source/outside_ops.h"

namespace memtune::frontend {
namespace {

using model::Pt2Argument;
using model::Pt2ArgumentKind;
using model::Pt2Graph;
using model::Pt2Node;
using model::Pt2ValueOrConstant;
using program::Stack;

constexpr std::string_view kOperator = "torch.ops.", kHigherOrder = "torch.ops.higher_order.",
                           kAssertion = "torch.ops.aten._assert_", kConstraint = "torch.ops.aten.sym_constrain_range";

// Error of one node, with its source line. Outer graphs rethrow it unchanged.
struct Refused : UsageError {
  using UsageError::UsageError;
};

// True for x[:] of a tensor.
bool slices_all(const Pt2Node& node) {
  if (node.target != "torch.ops.aten.slice.Tensor" || node.inputs.size() != 4) return false;
  const auto is = [&](size_t i, int64_t number) {
    const Pt2Argument& input = node.inputs[i];
    if (input.kind != Pt2ArgumentKind::integer || input.is_list || !input.elements.at(0).value.empty()) return false;
    return std::get<int64_t>(input.elements[0].constant) == number;
  };
  return node.inputs[0].kind == Pt2ArgumentKind::tensor && is(2, 0) && is(3, std::numeric_limits<int64_t>::max());
}

// By name; unnamed inputs by position.
const Pt2Argument* find_input(const Pt2Node& node, const std::string& name, size_t position) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i].name == name || (node.inputs[i].name.empty() && i == position)) return &node.inputs[i];
  return nullptr;
}

const Pt2Argument& single_input(const Pt2Node& node, size_t i, Pt2ArgumentKind kind) {
  if (i >= node.inputs.size() || node.inputs[i].kind != kind || node.inputs[i].is_list)
    throw UsageError("its arguments are not those that torch.export writes");
  return node.inputs[i];
}

const Pt2Graph& graph_input(const Pt2Node& node, size_t i) {
  return *single_input(node, i, Pt2ArgumentKind::graph).graph;
}

}  // namespace

GraphLowering::GraphLowering(program::Program& program, const ModelSourceAndLoweringOptions& source)
    : emit_(program), regions_(program), source_(source), values_(emit_, source.device) {}

void GraphLowering::write(const Pt2Graph& graph) {
  for (const Pt2Node& node : graph.nodes) try {
      regions_.enter(emit_, node.modules);
      emit_.at(node.source);
      write(node);
    } catch (const Refused&) {
      throw;
    } catch (const UsageError& error) {
      const std::string where = node.source.empty() ? "" : " at " + printable_line(node.source);
      throw Refused("cannot run " + printable_line(node.target) + where + ": " + error.what());
    }
}

void GraphLowering::write(const Pt2Node& node) {
  const std::string_view target = node.target;
  if (target.starts_with(kAssertion) || target.starts_with(kConstraint)) return;
  if (target.starts_with(kHigherOrder)) return write_region(node, node.target.substr(kHigherOrder.size()));
  if (target.starts_with(kOperator)) return write_call(node, node.target.substr(kOperator.size()));
  const HostFunction* function = find_host_function(node.target);
  if (!function) throw UsageError("memtune has no such function");
  Values inputs;
  for (const Pt2Argument& input : node.inputs) inputs.push_back(values_.plain(input));
  bind(node, emit_.call({node.target, nullptr, *function}, inputs, node.outputs.size()));
}

// --- operators ---

// `name`: "aten.linear.default"
c10::OperatorHandle GraphLowering::find_operator(const std::string& name) const {
  const std::vector<std::string> parts = split(name, '.');
  if (parts.size() != 3) throw UsageError("that is no operator's name");
  const std::string qualified = parts[0] + "::" + parts[1];
  if (model::reaches_outside(qualified) && !source_.model.trusted)
    throw UsageError(
        "it reaches beyond a training step (files, processes, the network): if you trust its author, "
        "--trust-model runs it");
  const auto found = c10::Dispatcher::singleton().findSchema({qualified, parts[2] == "default" ? "" : parts[2]});
  if (found) return *found;
  if (parts[0] == "transformers")
    throw UsageError(
        "transformers registers it in Python: export the model in bfloat16, or after "
        "model.set_experts_implementation(\"batched_mm\")");
  const bool is_ours = parts[0] == "aten" || parts[0] == "prims";
  throw UsageError(std::string("LibTorch has no such operator") +
                   (is_ours ? "" : "; those of other libraries come with --library FILE.so"));
}

Values GraphLowering::arguments(const Pt2Node& node, const c10::FunctionSchema& schema) {
  Values inputs;
  size_t taken = 0;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& wanted = schema.arguments()[i];
    const Pt2Argument* given = find_input(node, wanted.name(), i);
    taken += given != nullptr;
    if (!given && !wanted.default_value()) throw UsageError("its argument '" + wanted.name() + "' is missing");
    inputs.push_back(given ? values_.argument(*given, wanted) : emit_.constant(*wanted.default_value()));
  }
  if (taken != node.inputs.size()) throw UsageError("it has arguments that the operator does not take");
  return inputs;
}

void GraphLowering::write_call(const Pt2Node& node, const std::string& name) {
  if (slices_all(node)) return bind(node, {values_.plain(node.inputs[0])});
  const c10::OperatorHandle handle = find_operator(name);
  const c10::FunctionSchema& schema = handle.schema();
  const size_t results = schema.returns().size();
  if (!node.outputs.empty() && node.outputs.size() != results)
    throw UsageError("it has " + std::to_string(node.outputs.size()) + " results, the operator gives " +
                     std::to_string(results));
  const auto run = [handle](Stack& stack) { handle.callBoxed(stack); };
  const Values outputs = emit_.call({schema.name(), &schema, run}, arguments(node, schema), results);
  if (!node.outputs.empty()) bind(node, outputs);
}

// --- results ---

void GraphLowering::bind(const Pt2Argument& output, Value value) {
  if (output.kind == Pt2ArgumentKind::other || output.kind == Pt2ArgumentKind::graph)
    throw UsageError("its result has a type that memtune does not support");
  if (!output.is_list) return values_.bind(output.elements.at(0).value, value);
  const Values parts = emit_.unpack_list(value, output.elements.size());
  for (size_t i = 0; i < parts.size(); ++i) values_.bind(output.elements[i].value, parts[i]);
}

void GraphLowering::bind(const Pt2Node& node, const Values& results) {
  for (size_t i = 0; i < node.outputs.size(); ++i) bind(node.outputs[i], results.at(i));
}

// Results of a region are separate values, even if its node has them as one list.
void GraphLowering::bind_each(const Pt2Node& node, const Values& results) {
  size_t next = 0;
  for (const Pt2Argument& output : node.outputs)
    for (const Pt2ValueOrConstant& element : output.elements) {
      if (next == results.size()) throw UsageError("it has more results than its graph");
      values_.bind(element.value, results[next++]);
    }
}

// --- regions ---

void GraphLowering::write_region(const Pt2Node& node, const std::string& name) {
  if (name == "wrap_with_set_grad_enabled") return write_grad_mode(node);
  if (name == "wrap_with_autocast") return write_autocast(node);
  if (name == "cond") return write_branch(node);
  throw UsageError("memtune cannot run this higher-order operator");
}

void GraphLowering::write_grad_mode(const Pt2Node& node) {
  emit_.enter_grad_mode(values_.plain(single_input(node, 0, Pt2ArgumentKind::boolean)));
  write_entered(node, 1);
}

// Uses the program's device instead of the recorded one.
void GraphLowering::write_autocast(const Pt2Node& node) {
  const c10::DeviceType device = source_.device.type();
  const bool has_dtype = node.inputs.size() > 1 && node.inputs[1].kind == Pt2ArgumentKind::dtype;
  const bool has_cache = node.inputs.size() > 3 && node.inputs[3].kind == Pt2ArgumentKind::boolean;
  const Value on = values_.plain(single_input(node, 2, Pt2ArgumentKind::boolean));
  const Value dtype =
      has_dtype ? values_.plain(node.inputs[1]) : emit_.constant(at::autocast::get_autocast_dtype(device));
  const Value cached = has_cache ? values_.plain(node.inputs[3]) : emit_.constant(true);
  emit_.enter_autocast(emit_.constant(c10::DeviceTypeName(device, /*lower_case=*/true)), on, dtype, cached);
  write_entered(node, 4);
}

void GraphLowering::write_entered(const Pt2Node& node, size_t graph) {
  const Values results = write_inside(graph_input(node, graph), operands(node, graph + 1));
  emit_.leave();
  bind_each(node, results);
}

void GraphLowering::write_branch(const Pt2Node& node) {
  const Pt2Graph &then = graph_input(node, 1), &otherwise = graph_input(node, 2);
  if (then.outputs.size() != otherwise.outputs.size()) throw UsageError("its branches have different results");
  const Values taken = operands(node, 3);
  const auto body = [&](const Pt2Graph& graph) { return [&] { return write_inside(graph, taken); }; };
  bind_each(node, emit_.branch(condition(node.inputs[0]), body(then), body(otherwise)));
}

Value GraphLowering::condition(const Pt2Argument& given) {
  const Value value = values_.plain(given);
  if (given.kind != Pt2ArgumentKind::tensor) return value;
  const auto run = [](Stack& stack) { stack = {stack.at(0).toTensor().is_nonzero()}; };
  return emit_.call({"aten::Bool", nullptr, run}, {value}, 1)[0];
}

Values GraphLowering::operands(const Pt2Node& node, size_t begin) {
  Values operands;
  for (size_t i = begin; i < node.inputs.size(); ++i)
    for (const Value value : values_.plain_list(node.inputs[i])) operands.push_back(value);
  return operands;
}

// The inner graph sees only its operands. Its names may equal names of the outer graph.
Values GraphLowering::write_inside(const Pt2Graph& graph, const Values& operands) {
  if (graph.inputs.size() != operands.size()) throw UsageError("its graph takes another number of operands");
  Pt2ArgumentConverter::Names outer = values_.exchange({});
  for (size_t i = 0; i < operands.size(); ++i)
    for (const Pt2ValueOrConstant& element : graph.inputs[i].elements) values_.bind(element.value, operands[i]);
  write(graph);
  Values results;
  for (const Pt2Argument& output : graph.outputs)
    for (const Value value : values_.plain_list(output)) results.push_back(value);
  values_.exchange(std::move(outer));
  return results;
}

}  // namespace memtune::frontend
