#include "core/model/frontend/model_output.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/frontend/dtype.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using program::Op;
using program::OutputTree;
using program::Program;
using program::Slot;

const char* const kAnswers[] = {"logits", "out", "output", "last_hidden_state"};

// --- an existing output ---

struct Part {
  std::string name;
  IValue value;
};

std::vector<Part> parts_of(const IValue& answer) {
  std::vector<Part> parts;
  if (answer.isGenericDict()) {
    for (const auto& entry : answer.toGenericDict())
      parts.push_back(
          {entry.key().isString() ? entry.key().toStringRef() : std::to_string(parts.size()), entry.value()});
  } else if (answer.isTuple()) {
    const auto& elements = answer.toTupleRef().elements();
    const auto type = answer.type()->cast<c10::TupleType>();
    const auto* schema = type && type->schema() ? type->schema().get() : nullptr;
    for (size_t i = 0; i < elements.size(); ++i)
      parts.push_back({schema ? schema->arguments()[i].name() : std::to_string(i), elements[i]});
  } else if (answer.isList()) {
    for (const IValue& element : answer.toList().vec()) parts.push_back({std::to_string(parts.size()), element});
  }
  return parts;
}

std::string describe_answer(const IValue& answer) {
  if (answer.isTensor() && answer.toTensor().defined()) {
    std::vector<std::string> sizes;
    for (const int64_t size : answer.toTensor().sizes()) sizes.push_back(std::to_string(size));
    return name_of(answer.toTensor().scalar_type()) + "[" + join(sizes, ",") + "]";
  }
  std::vector<std::string> parts;
  for (const Part& part : parts_of(answer)) parts.push_back(part.name + ": " + describe_answer(part.value));
  return parts.empty() ? answer.tagKind() : answer.tagKind() + " (" + join(parts, ", ") + ")";
}

[[noreturn]] void refuse(const std::string& output, const IValue& answer) {
  throw UsageError((output.empty() ? "the loss finds no tensor of floats" : "--output " + output + ": no such part") +
                   "; the model returns " + describe_answer(answer));
}

bool is_float(const IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_floating_point();
}
bool is_number(const IValue& value) { return is_float(value) && value.toTensor().numel() == 1; }
bool is_more(const IValue& value) { return is_float(value) && value.toTensor().dim() > 0; }

// The first tensor of the output that `wanted` accepts, depth first.
std::optional<at::Tensor> first(const IValue& answer, bool (*wanted)(const IValue&)) {
  if (answer.isTensor()) return wanted(answer) ? std::optional(answer.toTensor()) : std::nullopt;
  for (const Part& part : parts_of(answer))
    if (auto found = first(part.value, wanted)) return found;
  return {};
}

std::optional<IValue> entry(const IValue& answer, const std::string& name) {
  for (const Part& part : parts_of(answer))
    if (part.name == name) return part.value;
  const auto parts = parts_of(answer);
  for (size_t i = 0; i < parts.size(); ++i)
    if (std::to_string(i) == name) return parts[i].value;
  return {};
}

std::optional<at::Tensor> returned_loss(const IValue& answer) {
  if (auto loss = entry(answer, "loss")) return first(*loss, is_float);
  const auto parts = parts_of(answer);
  const bool only_numbers = std::all_of(parts.begin(), parts.end(), [](const Part& p) { return is_number(p.value); });
  if (answer.isGenericDict() && parts.size() > 1 && only_numbers) {
    at::Tensor sum = parts[0].value.toTensor();
    for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i].value.toTensor();
    return sum;
  }
  for (const Part& part : parts)
    if (part.value.isGenericDict())
      if (auto inner = returned_loss(part.value)) return inner;
  return first(answer, is_number);
}

std::optional<at::Tensor> usual_answer(const IValue& answer) {
  for (const char* name : kAnswers)
    if (auto found = answer.isGenericDict() ? entry(answer, name) : std::nullopt) return first(*found, is_float);
  return first(answer, is_more);
}

IValue named(const IValue& answer, const std::string& output) {
  IValue value = answer;
  std::string rest = output;
  while (!rest.empty()) {
    auto whole = entry(value, rest);
    const size_t dot = whole ? std::string::npos : rest.find('.');
    auto found = whole ? whole : entry(value, rest.substr(0, dot));
    if (!found) refuse(output, answer);
    value = *found;
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
  }
  return value;
}

// --- notes on choices that may be wrong ---

std::string guess(const std::string& answer, const std::string& taken) {
  return "the model returns " + answer + "; that the loss takes " + taken +
         " of it is a guess: select the part with --output";
}

bool may_be_taken(const IValue& value, LossKind loss) {
  return loss == LossKind::returned ? is_number(value) : is_more(value);
}

// `path`: path of `answer`, "1.scores".
void find_candidates(const IValue& answer, LossKind loss, const std::string& path, std::vector<Part>& found) {
  if (may_be_taken(answer, loss)) found.push_back({path, answer});
  for (const Part& part : parts_of(answer))
    find_candidates(part.value, loss, path + (path.empty() ? "" : ".") + part.name, found);
}

// Returns "" if there was no other candidate or the part is named "loss".
std::string note_on(const IValue& answer, const at::Tensor& taken, LossKind loss) {
  std::vector<Part> candidates;
  find_candidates(answer, loss, "", candidates);
  if (candidates.size() < 2) return "";
  for (const Part& part : candidates)
    if (part.value.toTensor().is_same(taken)) {
      const bool named = loss == LossKind::returned && part.name.substr(part.name.rfind('.') + 1) == "loss";
      return named ? "" : guess(describe_answer(answer), "'" + part.name + "'");
    }
  return guess(describe_answer(answer), "the sum");
}

// --- an output that does not exist yet ---

// Finds single numbers by the ops that make them, because a tuple's element is chosen before any op runs.
class Numbers {
 public:
  explicit Numbers(const program::ProgramOrControlFlowBody& body) { visit(body); }
  bool has(Slot slot) const { return numbers_.count(slot) > 0; }

 private:
  void visit(const program::ProgramOrControlFlowBody& body) {
    static const std::set<std::string> passes = {"aten::add", "aten::sub",   "aten::mul",     "aten::div", "aten::neg",
                                                 "aten::to",  "aten::clone", "aten::squeeze", "aten::add_"};
    for (const Op& op : body.ops) {
      for (const program::ProgramOrControlFlowBody& inner : op.bodies) visit(inner);
      if (op.kind == program::InterpreterInstructionKind::branch) visit_results(op);
      if (op.outputs.size() != 1) continue;
      const bool reduces = op.name.ends_with("_loss") || op.name == "aten::binary_cross_entropy" ||
                           op.name == "aten::binary_cross_entropy_with_logits" ||
                           ((op.name == "aten::mean" || op.name == "aten::sum") && op.inputs.size() <= 2);
      if (reduces || (passes.count(op.name) && has(op.inputs[0]))) numbers_.insert(op.outputs[0]);
    }
  }

  void visit_results(const Op& branch) {
    for (size_t i = 0; i < branch.outputs.size(); ++i)
      for (const program::ProgramOrControlFlowBody& inner : branch.bodies)
        if (has(inner.outputs[i])) numbers_.insert(branch.outputs[i]);
  }

  std::set<Slot> numbers_;
};

class Chooser {
 public:
  Chooser(ProgramEmitter& emit, Program& program, LossKind loss)
      : emit_(emit), numbers_(program.body), loss_(loss), note_(program.answer_note) {}

  Value choose_from(const OutputTree& answer, const std::string& output) {
    const Value value = part_of(answer, output);
    if (several_) *note_ = guess(described(answer), "part " + path_);
    return value;
  }

 private:
  Value part_of(const OutputTree& answer, const std::string& output) {
    if (output.empty() && answer.slot < 0)
      if (const OutputTree* part = usual_part(answer)) return part_of(*part, output);
    if (answer.slot >= 0) {
      const bool tensor = answer.type->kind() == c10::TypeKind::TensorType;
      return tensor && output.empty() ? Value{answer.slot} : pick({answer.slot}, output);
    }
    if (answer.elements.empty()) throw UsageError("the model returns nothing");
    if (output.empty()) return part_of(usual(answer), output);
    const std::string index = output.substr(0, output.find('.'));
    const std::string rest = index.size() == output.size() ? "" : output.substr(index.size() + 1);
    for (size_t i = 0; i < answer.elements.size(); ++i)
      if (std::to_string(i) == index || answer.elements[i].name == index) return part_of(answer.elements[i], rest);
    throw UsageError("--output " + output + ": no such part; the model returns " + described(answer));
  }

  static std::string described(const OutputTree& answer) {
    std::vector<std::string> names;
    for (const OutputTree& part : answer.elements)
      if (!part.name.empty()) names.push_back(part.name);
    return names.empty() ? "a tuple of " + std::to_string(answer.elements.size()) : join(names, ", ");
  }

  // The default part by name, for outputs with named parts.
  const OutputTree* usual_part(const OutputTree& answer) const {
    const auto find = [&](const std::string& name) {
      const auto found = std::ranges::find(answer.elements, name, &OutputTree::name);
      return found == answer.elements.end() ? nullptr : &*found;
    };
    if (loss_ == LossKind::returned) return find("loss");
    for (const char* name : kAnswers)
      if (const OutputTree* part = find(name)) return part;
    return nullptr;
  }

  bool may_be_taken(const OutputTree& one) const {
    if (one.slot < 0)
      return std::any_of(one.elements.begin(), one.elements.end(),
                         [this](const OutputTree& inner) { return may_be_taken(inner); });
    return one.type->kind() != c10::TypeKind::TensorType || numbers_.has(one.slot) == (loss_ == LossKind::returned);
  }

  const OutputTree& usual(const OutputTree& answer) {
    const auto& parts = answer.elements;
    const auto wanted = [this](const OutputTree& one) { return may_be_taken(one); };
    const auto found = std::find_if(parts.begin(), parts.end(), wanted);
    const auto taken = found == parts.end() ? parts.begin() : found;
    several_ = several_ || (parts.size() > 1 && std::count_if(parts.begin(), parts.end(), wanted) != 1);
    if (!path_.empty()) path_ += '.';
    path_ += std::to_string(taken - parts.begin());
    return *taken;
  }

  Value pick(Value answer, const std::string& output) {
    static const c10::FunctionSchema schema = torch::jit::parseSchema("memtune::output(t(a) answer) -> t(a)");
    const auto run = [loss = loss_, output, note = note_](program::Stack& stack) {
      const at::Tensor taken = choose(stack.at(0), loss, output);
      if (output.empty() && note->empty()) *note = note_on(stack.at(0), taken, loss);
      stack.clear();
      stack.emplace_back(taken);
    };
    const ProgramEmitter::InRegion region(emit_, "loss", "loss");
    return emit_.call({"memtune::output", &schema, run}, {answer}, 1)[0];
  }

  ProgramEmitter& emit_;
  const Numbers numbers_;
  const LossKind loss_;
  const std::shared_ptr<std::string> note_;
  bool several_ = false;
  std::string path_;  // path of the part chosen without --output, "0.1"
};

}  // namespace

Value chosen(ProgramEmitter& emit, Program& program, LossKind loss, const std::string& output) {
  program.answer_note = std::make_shared<std::string>();
  return Chooser(emit, program, loss).choose_from(program.answer, output);
}

at::Tensor choose(const IValue& answer, LossKind loss, const std::string& output) {
  const IValue value = output.empty() ? answer : named(answer, output);
  if (is_float(value)) return value.toTensor();
  const auto found = loss == LossKind::returned ? returned_loss(value) : usual_answer(value);
  if (found) return *found;
  if (auto any = first(value, is_float)) return *any;
  refuse(output, answer);
}

}  // namespace memtune::frontend
