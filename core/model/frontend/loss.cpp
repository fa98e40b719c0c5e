#include "core/model/frontend/loss.h"

#include <ATen/ops/sub.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/model/frontend/extracted_output_layer.h"
#include "core/model/frontend/model_output.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/frontend/requested_input_specs_and_tensors.h"
#include "core/model/frontend/sentence_embedding.h"
#include "core/model/ops/chunked_log_probs.h"
#include "core/model/ops/linear_cross_entropy.h"
#include "core/model/program/liveness.h"

namespace memtune::frontend {
namespace {

using c10::IValue;

using program::OutputTree;
using program::Program;

constexpr char kRemedyForImplementation[] =
    "chunked and fused need a linear layer at the model's end; otherwise use --loss-impl plain";
constexpr char kRemedyForCompletions[] =
    "it needs a linear layer at the model's end; measure the trainer by its command: memtune sweep -- python train.py";

Value pack(ProgramEmitter& emit, const OutputTree& answer) {
  if (answer.slot >= 0) return {answer.slot};
  Values elements, entries;
  for (const OutputTree& element : answer.elements) {
    elements.push_back(pack(emit, element));
    if (element.name.empty()) continue;
    entries.push_back(emit.constant(element.name));
    entries.push_back(elements.back());
  }
  if (entries.size() < 2 * elements.size() || elements.empty()) return emit.tuple(elements);
  return emit.dict(c10::DictType::create(c10::StringType::get(), c10::AnyType::get()), entries);
}

Value rows(ProgramEmitter& emit, Value x, const ValueOrConstantOpArgument& begin,
           const ValueOrConstantOpArgument& end) {
  const Value all = emit.op("aten::slice", "Tensor", {x, 0, IValue(), IValue(), 1});
  return emit.op("aten::slice", "Tensor", {all, 1, begin, end, 1});
}

Value in_float(ProgramEmitter& emit, Value x) { return emit.op("aten::to", "dtype", {x, at::kFloat}); }

Value next_token(ProgramEmitter& emit, Value output, Value target) {
  const Value predicted = emit.op("aten::flatten", "using_ints", {rows(emit, output, IValue(), -1), 0, 1});
  const Value logits = in_float(emit, predicted);
  const Value next = emit.op("aten::flatten", "using_ints", {rows(emit, target, 1, IValue())});
  return emit.op("aten::cross_entropy_loss", "", {logits, next});
}

// Like transformers, compares the last token with the ignored label.
Value shifted_labels(ProgramEmitter& emit, Value target) {
  const Value padded = emit.op(
      "aten::pad", "", {target, std::vector<int64_t>{0, 1}, std::string("constant"), double{ops::kIgnoredLabel}});
  const Value next = emit.op("aten::slice", "Tensor", {padded, 1, 1, IValue()});
  const Value shifted = emit.op("aten::contiguous", "", {next});
  return emit.op("aten::view", "", {shifted, std::vector<int64_t>{-1}});
}

Value causal_lm(ProgramEmitter& emit, Value output, Value target) {
  const Value logits = in_float(emit, output);
  const Value vocabulary = emit.op("aten::size", "int", {logits, -1});
  const Value shape = emit.list(c10::ListType::ofInts(), {emit.constant(-1), vocabulary});
  const Value flat = emit.op("aten::view", "", {logits, shape});
  return emit.op("aten::cross_entropy_loss", "", {flat, shifted_labels(emit, target)});
}

Value bias_of(ProgramEmitter& emit, const ExtractedOutputLayer& layer) {
  return layer.bias ? *layer.bias : emit.constant(IValue());
}

// For both losses over tokens. The sums are the same, in another order.
Value without_logits(ProgramEmitter& emit, const ExtractedOutputLayer& layer, Value target,
                     const LossImplementation& how) {
  static const c10::FunctionSchema schema = torch::jit::parseSchema(
      "memtune::linear_cross_entropy(Tensor hidden, Tensor weight, Tensor? bias, Tensor labels) -> Tensor");
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  const Value hidden = emit.op("aten::flatten", "using_ints", {layer.hidden, 0, -2});
  const auto run = [how = ops::LinearCrossEntropyOptions{how.chunks, layer.steps}](program::Stack& stack) {
    const at::Tensor loss = ops::linear_cross_entropy(stack[0].toTensor(), stack[1].toTensor(),
                                                      stack[2].toOptional<at::Tensor>(), stack[3].toTensor(), how);
    stack.clear();
    stack.emplace_back(loss);
  };
  return emit.call({schema.name(), &schema, run},
                   {hidden, layer.weight, bias_of(emit, layer), shifted_labels(emit, target)}, 1)[0];
}

// As TRL reads it from a model's config.
ops::LogitScaleAndSoftcap scaling_of(const std::vector<ops::LogitElementwiseOperation>& steps, LossKind loss) {
  using Kind = ops::LogitElementwiseOperation::Kind;
  ops::LogitScaleAndSoftcap scaling;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double factor = steps[i].factor;
    const bool capped = i + 2 < steps.size() && steps[i].kind == Kind::divide && steps[i + 1].kind == Kind::tanh &&
                        steps[i + 2].kind == Kind::multiply && steps[i + 2].factor == factor;
    if (steps[i].kind == Kind::to_float) continue;
    if (scaling.softcap || steps[i].kind == Kind::tanh)
      throw UsageError("--loss " + to_string(loss) +
                       ": the model's logits are neither scaled nor capped as TRL does; " + kRemedyForCompletions);
    if (capped) {
      scaling.softcap = factor;
      i += 2;
    } else {
      scaling.scale *= steps[i].kind == Kind::multiply ? factor : 1 / factor;
    }
  }
  return scaling;
}

// Log probabilities of each row's next tokens, [rows, length - 1]; 0 for tokens outside of the completion.
Value completion_log_probs(ProgramEmitter& emit, LossKind loss, const ExtractedOutputLayer& layer, Value tokens,
                           Value completion_mask) {
  static const c10::FunctionSchema schema = torch::jit::parseSchema(
      "memtune::chunked_log_probs(Tensor hidden, Tensor weight, Tensor? bias, Tensor labels) -> Tensor");
  const auto run = [scaling = scaling_of(layer.steps, loss)](program::Stack& stack) {
    const at::Tensor result = ops::chunked_log_probs(stack[0].toTensor(), stack[1].toTensor(),
                                                     stack[2].toOptional<at::Tensor>(), stack[3].toTensor(), scaling);
    stack.clear();
    stack.emplace_back(result);
  };
  const Value prompt = emit.op("aten::eq", "Scalar", {completion_mask, 0});
  const Value labels = emit.op("aten::masked_fill", "Scalar", {tokens, prompt, ops::kIgnoredLabel});
  const Value hidden = rows(emit, layer.hidden, IValue(), -1), next = rows(emit, labels, 1, IValue());
  return emit.call({schema.name(), &schema, run}, {hidden, layer.weight, bias_of(emit, layer), next}, 1)[0];
}

// DPOTrainer of TRL 1.16 with precompute_ref_log_probs: loss_type sigmoid, beta 0.1.
Value dpo(ProgramEmitter& emit, const ExtractedOutputLayer& layer, Value tokens, const Values& others) {
  constexpr double kBeta = 0.1;
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  const Value each = completion_log_probs(emit, LossKind::dpo, layer, tokens, others[0]);
  const Value sums = emit.op("aten::sum", "dim_IntList", {each, std::vector<int64_t>{1}});
  const Values halves = emit.unpack_list(emit.op("aten::chunk", "", {sums, 2}), 2);
  const auto minus = [&](Value x, Value y) { return emit.op("aten::sub", "Tensor", {x, y}); };
  const Value delta = minus(minus(halves[0], others[1]), minus(halves[1], others[2]));
  const Value sure = emit.op("aten::log_sigmoid", "", {emit.op("aten::mul", "Scalar", {delta, kBeta})});
  return emit.op("aten::mean", "", {emit.op("aten::neg", "", {sure})});
}

// Prompts with completions of other rows.
struct KlRows {
  Value tokens, padding, completion_mask;
};

// Summed log probabilities of `of_others`, [rows]. A copy of the model computes them first, without gradients.
Value kl_log_probs(ProgramEmitter& emit, Program& program, ExtractedOutputLayer layer, Value tokens,
                   const KlRows& of_others) {
  std::vector<program::Op> model = std::exchange(program.body.ops, {});
  SlotMap copies = {{tokens.slot, of_others.tokens.slot}};
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].name == kPadding) copies[program.body.inputs[i]] = of_others.padding.slot;
  emit.enter_grad_mode(emit.constant(false));
  emit.copy(model, "KL", copies);
  const auto copied = [&](Value value) {
    const auto found = copies.find(value.slot);
    return found == copies.end() ? value : Value{found->second};
  };
  layer.hidden = copied(layer.hidden);
  layer.weight = copied(layer.weight);
  if (layer.bias) layer.bias = copied(*layer.bias);
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  const Value each = completion_log_probs(emit, LossKind::kto, layer, of_others.tokens, of_others.completion_mask);
  const Value sums = emit.op("aten::sum", "dim_IntList", {each, std::vector<int64_t>{-1}});
  emit.leave();
  std::move(model.begin(), model.end(), std::back_inserter(program.body.ops));
  return sums;
}

// KTOTrainer of TRL 1.16 with precompute_ref_log_probs: loss_type kto, beta 0.1, weights 1.
Value kto(ProgramEmitter& emit, Program& program, const ExtractedOutputLayer& layer, Value tokens,
          const Values& others) {
  constexpr double kBeta = 0.1, kWeight = 1;
  const Value kl_sums = kl_log_probs(emit, program, layer, tokens, {others[4], others[5], others[6]});
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  const Value each = completion_log_probs(emit, LossKind::kto, layer, tokens, others[0]);
  const Value sums = emit.op("aten::sum", "dim_IntList", {each, std::vector<int64_t>{-1}});
  const Value desirable = emit.op("aten::to", "dtype", {others[1], at::kBool});
  const auto minus = [&](Value x, Value y) { return emit.op("aten::sub", "Tensor", {x, y}); };
  const auto log_ratios = [&](Value chosen) {
    const Value found = emit.op("aten::nonzero", "", {chosen});
    const Value rows = emit.op("aten::view", "", {found, std::vector<int64_t>{-1}});
    const auto select = [&](Value of) { return emit.op("aten::index_select", "", {of, 0, rows}); };
    return minus(select(sums), select(others[2]));
  };
  const Value undesirable = emit.op("aten::bitwise_not", "", {desirable});
  const Value of_desirable = log_ratios(desirable), of_undesirable = log_ratios(undesirable);
  const Value mean = emit.op("aten::mean", "", {minus(kl_sums, others[3])});
  const Value kl = emit.op("aten::clamp", "", {emit.op("aten::detach", "", {mean}), 0});
  const auto losses = [&](Value difference) {
    const Value sure = emit.op("aten::sigmoid", "", {emit.op("aten::mul", "Scalar", {difference, kBeta})});
    return emit.op("aten::mul", "Scalar", {emit.op("aten::rsub", "Scalar", {sure, 1}), kWeight});
  };
  const Values both = {losses(minus(of_desirable, kl)), losses(minus(kl, of_undesirable))};
  return emit.op("aten::nanmean", "", {emit.op("aten::cat", "", {emit.list(c10::ListType::ofTensors(), both)})});
}

// Of two sizes, while the program runs.
Value size_difference(ProgramEmitter& emit, Value size, Value less) {
  const auto run = [](program::Stack& stack) {
    const int64_t difference = stack[0].toInt() - stack[1].toInt();
    stack.clear();
    stack.emplace_back(difference);
  };
  return emit.call({"aten::sub", nullptr, run}, {size, less}, 1)[0];
}

// GRPOTrainer of TRL 1.16 without a reference model: loss_type dapo, epsilon 0.2, temperature 1,
// importance_sampling_level token.
Value grpo(ProgramEmitter& emit, const ExtractedOutputLayer& layer, Value tokens, const Values& others) {
  constexpr double kEpsilon = 0.2;
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  const auto length = [&](Value of) { return emit.op("aten::size", "int", {of, 1}); };
  const Value mask = others[0], advantages = emit.op("aten::unsqueeze", "", {others[1], 1});
  const Value prompt = size_difference(emit, length(tokens), length(mask));
  const Value sides = emit.list(c10::ListType::ofInts(), {prompt, emit.constant(0)});
  const Value in_rows = emit.op("aten::constant_pad_nd", "", {mask, sides});
  const Value each = completion_log_probs(emit, LossKind::grpo, layer, tokens, in_rows);
  const Value log_probs =
      emit.op("aten::slice", "Tensor", {each, 1, size_difference(emit, prompt, emit.constant(1)), IValue()});
  const Value given = emit.is_instance(others[3], {c10::TensorType::get()});
  const Value old = emit.branch(
      given, [&] { return Values{others[3]}; }, [&] { return Values{emit.op("aten::detach", "", {log_probs})}; })[0];
  const Value ratio = emit.op("aten::exp", "", {emit.op("aten::sub", "Tensor", {log_probs, old})});
  const Value clipped = emit.op("aten::clamp", "", {ratio, 1 - kEpsilon, 1 + kEpsilon});
  const auto times = [&](Value x, Value y) { return emit.op("aten::mul", "Tensor", {x, y}); };
  const Value least = emit.op("aten::min", "other", {times(ratio, advantages), times(clipped, advantages)});
  const Value sum = emit.op("aten::sum", "", {times(emit.op("aten::neg", "", {least}), mask)});
  return emit.op("aten::div", "Tensor", {sum, emit.op("aten::clamp", "", {others[2], 1.0})});
}

// Returns `x` if there is no margin.
Value less_margin(ProgramEmitter& emit, Value x, Value margin) {
  static const c10::FunctionSchema schema =
      torch::jit::parseSchema("memtune::less_margin(Tensor(a) x, Tensor? margin) -> Tensor(a)");
  const auto run = [](program::Stack& stack) {
    const at::Tensor margin = stack[1].isTensor() ? stack[1].toTensor() : at::Tensor();
    const at::Tensor x = stack[0].toTensor();
    stack.clear();
    stack.emplace_back(margin.defined() ? at::sub(x, margin) : x);
  };
  return emit.call({schema.name(), &schema, run}, {x, margin}, 1)[0];
}

// RewardTrainer of TRL 1.16 without center_rewards_coefficient.
Value reward(ProgramEmitter& emit, Value scores, Value margin) {
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  const Value flat = emit.op("aten::squeeze", "dim", {scores, -1});
  const Values halves = emit.unpack_list(emit.op("aten::chunk", "", {flat, 2}), 2);
  const Value difference = emit.op("aten::sub", "Tensor", {halves[0], halves[1]});
  const Value sure = emit.op("aten::log_sigmoid", "", {less_margin(emit, difference, margin)});
  return emit.op("aten::neg", "", {emit.op("aten::mean", "", {sure})});
}

// The outputs of both columns.
Values chosen_in_columns(ProgramEmitter& emit, Program& program, const std::string& output) {
  const OutputTree answer = program.answer;
  Values embeddings;
  for (const OutputTree& column : answer.elements) {
    program.answer = column;
    embeddings.push_back(chosen(emit, program, LossKind::embedding, output));
  }
  program.answer = answer;
  return embeddings;
}

Value compare(ProgramEmitter& emit, LossKind loss, Value output, Value target) {
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  if (loss == LossKind::next_token) return next_token(emit, output, target);
  if (loss == LossKind::causal_lm) return causal_lm(emit, output, target);
  const Value first = in_float(emit, output);
  if (loss == LossKind::cross_entropy) return emit.op("aten::cross_entropy_loss", "", {first, target});
  return emit.op("aten::mse_loss", "", {first, in_float(emit, target)});
}

Value find_or_add(ProgramEmitter& emit, const Program& program, const std::string& input) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].name == input) return {program.body.inputs[i]};
  const bool optional = input == kPaddingOfKl || input == kOldLogProbs;
  return emit.input(input, optional, /*of_model=*/false);
}

// Sets the probabilities of dropout to 0, as disable_dropout_in_model() of TRL does.
void disable_dropout(ProgramEmitter& emit) {
  const Value never = emit.constant(0.0);
  emit.rewrite([&](program::Op op) {
    constexpr size_t kProbability = 1, kProbabilityOfAttention = 4;
    if (op.name == "aten::dropout") op.inputs.at(kProbability) = never.slot;
    if (op.name == "aten::scaled_dot_product_attention" && op.inputs.size() > kProbabilityOfAttention)
      op.inputs[kProbabilityOfAttention] = never.slot;
    emit.keep(std::move(op));
  });
}

void refuse_implementation(LossKind loss, const LossImplementation& how) {
  if (how.kind != LossImplementation::Kind::plain && !is_of_tokens(loss))
    throw UsageError("--loss-impl chunked and fused are for --loss next_token and causal_lm, not " + to_string(loss));
}

void number_ops(program::ProgramOrControlFlowBody& body, int& next) {
  for (program::Op& op : body.ops) {
    op.id = next++;
    for (program::ProgramOrControlFlowBody& inner : op.bodies) number_ops(inner, next);
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

std::vector<std::string> other_inputs(LossKind loss) {
  switch (loss) {
    case LossKind::dpo: return {"completion_mask", "ref_chosen_logps", "ref_rejected_logps"};
    case LossKind::kto:
      return {"completion_mask", "label", "ref_logps", "ref_KL_logps", kTokensOfKl, kPaddingOfKl, "KL_completion_mask"};
    case LossKind::grpo: return {"completion_mask", "advantages", "num_items_in_batch", kOldLogProbs};
    case LossKind::reward: return {"margin"};
    default: return {};
  }
}

Program with_loss(Program program, LossKind loss, const std::string& target, const std::string& output,
                  const LossImplementation& how) {
  ProgramEmitter emit(program);
  if (disables_dropout(loss)) disable_dropout(emit);
  Value result;
  if (loss == LossKind::none) {
    result = pack(emit, program.answer);
  } else if (loss == LossKind::embedding) {
    refuse_implementation(loss, how);
    const Values embeddings = chosen_in_columns(emit, program, output);
    result = ranking_loss(emit, embeddings[0], embeddings[1], program.state.parameters.front().second.device());
  } else {
    result = chosen(emit, program, loss, output);
    if (how.kind != LossImplementation::Kind::plain) {
      refuse_implementation(loss, how);
      const ExtractedOutputLayer layer = extract_output_layer(program, result, "--loss-impl", kRemedyForImplementation);
      result = without_logits(emit, layer, find_or_add(emit, program, target), how);
    } else if (is_of_completions(loss)) {
      const ExtractedOutputLayer layer =
          extract_output_layer(program, result, "--loss " + to_string(loss), kRemedyForCompletions);
      const Value tokens = find_or_add(emit, program, target);
      Values others;
      for (const std::string& name : other_inputs(loss)) others.push_back(find_or_add(emit, program, name));
      if (loss == LossKind::dpo) result = dpo(emit, layer, tokens, others);
      if (loss == LossKind::kto) result = kto(emit, program, layer, tokens, others);
      if (loss == LossKind::grpo) result = grpo(emit, layer, tokens, others);
    } else if (loss == LossKind::reward) {
      result = reward(emit, result, emit.input("margin", /*optional=*/true, /*of_model=*/false));
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
