#include "core/model/frontend/loss.h"

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/model/frontend/emitter.h"
#include "core/model/frontend/model_output.h"
#include "core/model/frontend/output_layer.h"
#include "core/model/ops/linear_cross_entropy.h"
#include "core/model/program/liveness.h"

namespace memtune::frontend {
namespace {

using c10::IValue;

using program::ModelOutput;
using program::Program;

Value pack(Emitter& emit, const ModelOutput& answer) {
  if (answer.slot >= 0) return {answer.slot};
  Values elements, entries;
  for (const ModelOutput& element : answer.elements) {
    elements.push_back(pack(emit, element));
    if (element.name.empty()) continue;
    entries.push_back(emit.constant(element.name));
    entries.push_back(elements.back());
  }
  if (entries.size() < 2 * elements.size() || elements.empty()) return emit.tuple(elements);
  return emit.dict(c10::DictType::create(c10::StringType::get(), c10::AnyType::get()), entries);
}

Value rows(Emitter& emit, Value x, const OpArgument& begin, const OpArgument& end) {
  const Value all = emit.op("aten::slice", "Tensor", {x, 0, IValue(), IValue(), 1});
  return emit.op("aten::slice", "Tensor", {all, 1, begin, end, 1});
}

Value in_float(Emitter& emit, Value x) { return emit.op("aten::to", "dtype", {x, at::kFloat}); }

Value next_token(Emitter& emit, Value output, Value target) {
  const Value predicted = emit.op("aten::flatten", "using_ints", {rows(emit, output, IValue(), -1), 0, 1});
  const Value logits = in_float(emit, predicted);
  const Value next = emit.op("aten::flatten", "using_ints", {rows(emit, target, 1, IValue())});
  return emit.op("aten::cross_entropy_loss", "", {logits, next});
}

// Like transformers, compares the last token with the ignored label.
Value shifted_labels(Emitter& emit, Value target) {
  const Value padded = emit.op(
      "aten::pad", "", {target, std::vector<int64_t>{0, 1}, std::string("constant"), double{ops::kIgnoredLabel}});
  const Value next = emit.op("aten::slice", "Tensor", {padded, 1, 1, IValue()});
  const Value shifted = emit.op("aten::contiguous", "", {next});
  return emit.op("aten::view", "", {shifted, std::vector<int64_t>{-1}});
}

Value causal_lm(Emitter& emit, Value output, Value target) {
  const Value logits = in_float(emit, output);
  const Value vocabulary = emit.op("aten::size", "int", {logits, -1});
  const Value shape = emit.list(c10::ListType::ofInts(), {emit.constant(-1), vocabulary});
  const Value flat = emit.op("aten::view", "", {logits, shape});
  return emit.op("aten::cross_entropy_loss", "", {flat, shifted_labels(emit, target)});
}

// For both losses over tokens. The sums are the same, in another order.
Value without_logits(Emitter& emit, const OutputLayer& layer, Value target, const LossImplementation& how) {
  static const c10::FunctionSchema schema = torch::jit::parseSchema(
      "memtune::linear_cross_entropy(Tensor hidden, Tensor weight, Tensor? bias, Tensor labels) -> Tensor");
  const Emitter::InRegion region(emit, "loss", "loss");
  const Value hidden = emit.op("aten::flatten", "using_ints", {layer.hidden, 0, -2});
  const auto run = [how = ops::LinearCrossEntropyOptions{how.chunks, layer.steps}](program::Stack& stack) {
    const at::Tensor loss = ops::linear_cross_entropy(stack[0].toTensor(), stack[1].toTensor(),
                                                      stack[2].toOptional<at::Tensor>(), stack[3].toTensor(), how);
    stack.clear();
    stack.emplace_back(loss);
  };
  const Value bias = layer.bias ? *layer.bias : emit.constant(IValue());
  return emit.call({schema.name(), &schema, run}, {hidden, layer.weight, bias, shifted_labels(emit, target)}, 1)[0];
}

Value compare(Emitter& emit, LossKind loss, Value output, Value target) {
  const Emitter::InRegion region(emit, "loss", "loss");
  if (loss == LossKind::next_token) return next_token(emit, output, target);
  if (loss == LossKind::causal_lm) return causal_lm(emit, output, target);
  const Value first = in_float(emit, output);
  if (loss == LossKind::cross_entropy) return emit.op("aten::cross_entropy_loss", "", {first, target});
  return emit.op("aten::mse_loss", "", {first, in_float(emit, target)});
}

Value find_or_add(Emitter& emit, const Program& program, const std::string& input) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].name == input) return {program.body.inputs[i]};
  return emit.input(input, /*optional=*/false, /*of_model=*/false);
}

void number_ops(program::Body& body, int& next) {
  for (program::Op& op : body.ops) {
    op.id = next++;
    for (program::Body& inner : op.bodies) number_ops(inner, next);
  }
}

}  // namespace

LossKind parse_loss(const std::string& text) {
  for (size_t i = 0; i < kLosses.size(); ++i)
    if (text == kLosses[i]) return static_cast<LossKind>(i + 1);
  throw UsageError(unknown_name("loss", text, kLosses));
}

std::string to_string(LossKind loss) {
  return loss == LossKind::none ? "none" : kLosses[static_cast<size_t>(loss) - 1];
}

Program with_loss(Program program, LossKind loss, const std::string& target, const std::string& output,
                  const LossImplementation& how) {
  Emitter emit(program);
  Value result;
  if (loss == LossKind::none) {
    result = pack(emit, program.answer);
  } else {
    result = chosen(emit, program, loss, output);
    if (how.kind != LossImplementation::Kind::plain) {
      if (!is_of_tokens(loss))
        throw UsageError("--loss-impl chunked and fused are for --loss next_token and causal_lm, not " +
                         to_string(loss));
      const OutputLayer layer = extract_output_layer(program, result);
      result = without_logits(emit, layer, find_or_add(emit, program, target), how);
    } else if (loss != LossKind::returned) {
      result = compare(emit, loss, result, find_or_add(emit, program, target));
    }
  }
  program.body.outputs = {result.slot};
  program.ops = 0;
  number_ops(program.body, program.ops);
  program::find_last_uses(program);
  return program;
}

}  // namespace memtune::frontend
