#include "core/model/frontend/requested_input_specs_and_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/frontend/columns.h"
#include "core/model/frontend/detected_model_source.h"
#include "core/model/frontend/dtype.h"
#include "core/model/frontend/safetensors.h"
#include "core/model/safetensors/reader.h"
#include "core/model/source/builtin_model_config_and_input_shape.h"

namespace memtune::frontend {
namespace {

using plan::InputSpec;

std::vector<std::string> names_of(const std::vector<program::ModelOrLossInputDeclaration>& inputs) {
  std::vector<std::string> names;
  for (const program::ModelOrLossInputDeclaration& input : inputs) names.push_back(input.name);
  return names;
}

bool is_of_integers(const RequestedInputSpecsAndTensors& described, const program::ModelOrLossInputDeclaration& input) {
  if (const auto* spec = described.find(input.name)) return is_integer(spec->dtype);
  return input.described && is_integer(input.described->dtype);
}

std::string first_integer(const RequestedInputSpecsAndTensors& described,
                          const std::vector<program::ModelOrLossInputDeclaration>& inputs, LossKind loss) {
  const std::vector<std::string> arguments = names_of(inputs);
  std::vector<std::string> known = arguments;
  for (const std::string& name : other_inputs(loss)) known.push_back(name);
  for (const std::string& name : described.names())
    if (!contains(known, name)) throw UsageError(unknown_name("input", name, known));
  for (const program::ModelOrLossInputDeclaration& input : inputs)
    if (is_of_integers(described, input)) return input.name;
  if (described.specs.empty() && !arguments.empty()) return arguments.front();  // its spec is guessed later
  throw UsageError(
      "the loss needs an integer target, and no input is of integers; set --target NAME, or another --loss");
}

}  // namespace

InputSpec spec_of(const std::string& name, const at::Tensor& tensor) {
  return {name, name_of(tensor.scalar_type()), tensor.sizes().vec(), std::nullopt};
}

bool is_integer(const std::string& dtype) { return dtype.starts_with("int") || dtype == "uint8"; }

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

RequestedInputSpecsAndTensors describe(const plan::ModelAndInputSource& model,
                                       const std::vector<std::string>& positions) {
  RequestedInputSpecsAndTensors result;
  if (!model.inputs_file.empty()) {
    for (auto& [name, tensor] : read_safetensors(model.inputs_file)) {
      result.specs.push_back(spec_of(name, tensor));
      result.file.emplace(name, tensor);
    }
  }
  auto specs = model.inputs;
  if (specs.empty() && model.inputs_file.empty() && !model.profile.empty())
    specs = {model::tokens_of(model::parse_model_profile("model profile", model.profile))};
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name.empty()) {
      if (i >= positions.size())
        throw UsageError("there are " + std::to_string(specs.size()) + " inputs, the model takes " +
                         std::to_string(positions.size()) + ": " + join(positions, ", "));
      specs[i].name = positions[i];
    }
    if (result.find(specs[i].name)) throw UsageError("input '" + specs[i].name + "' is described twice");
    result.specs.push_back(specs[i]);
  }
  return result;
}

std::string choose_target(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training, LossKind loss,
                          const std::vector<program::ModelOrLossInputDeclaration>& inputs) {
  if (loss == LossKind::returned || loss == LossKind::none || loss == LossKind::embedding) return "";
  const std::vector<std::string> arguments = names_of(inputs);
  auto positions = arguments;
  const bool takes_tokens = is_of_completions(loss) || loss == LossKind::reward;
  if (!takes_tokens && !contains(positions, "target")) positions.push_back("target");
  RequestedInputSpecsAndTensors described = describe(model, positions);
  auto names = arguments;
  for (const std::string& name : described.names())
    if (!contains(names, name)) names.push_back(name);
  const std::string& wanted = training.target;
  if (!wanted.empty()) {
    if (!is_of_tokens(loss) && !contains(names, "target")) names.push_back("target");
    if (!contains(names, wanted)) throw UsageError(unknown_name("target", wanted, names));
    return wanted;
  }
  if (takes_tokens) return first_integer(described, inputs, loss);
  for (const char* usual : {"labels", "target"})
    if (contains(names, usual)) return usual;
  if (is_of_tokens(loss) && has_padding(model, training)) return "labels";
  return is_of_tokens(loss) ? first_integer(described, inputs, loss) : "target";
}

int64_t known_sequence(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training) {
  if (training.sequence > 0) return training.sequence;
  int64_t longest = 0;
  for (const InputSpec& spec : model.inputs)
    if (is_integer(spec.dtype) && spec.shape.size() == 2 && (longest == 0 || !column_of(spec.name).empty()))
      longest = std::max(longest, spec.shape[1]);
  if (model.inputs_file.empty()) return longest;
  if (training.pack)
    for (const auto& [name, tensor] : read_safetensors(model.inputs_file))
      if (name == "position_ids" && tensor.numel() > 0) return tensor.max().item<int64_t>() + 1;
  const safetensors::Reader file(model.inputs_file);
  for (const safetensors::TensorEntry& entry : file.entries())
    if (without_column(entry.name) == "input_ids" && entry.shape.size() == 2)
      longest = std::max(longest, entry.shape[1]);
  return longest;
}

bool has_padding(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training) {
  if (probe(model).file.config.empty()) return false;
  if (training.padding > 0 || model.inputs_file.empty()) return training.padding > 0;
  const safetensors::Reader file(model.inputs_file);
  return std::ranges::any_of(file.entries(), [](const auto& entry) { return without_column(entry.name) == kPadding; });
}

}  // namespace memtune::frontend
