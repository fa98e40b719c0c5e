#include "tests/frontend/exported_archive.h"

#include <ATen/ATen.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "tests/pt2/made_up_pt2.h"

namespace memtune::tests {
namespace {

using nlohmann::json;
using program::InterpreterInstructionKind;
using program::Op;
using program::Slot;

int number_of(at::ScalarType type) {
  static const std::map<at::ScalarType, int> numbers = {{at::kLong, 5},   {at::kHalf, 6},  {at::kFloat, 7},
                                                        {at::kDouble, 8}, {at::kBool, 12}, {at::kBFloat16, 13}};
  return numbers.at(type);
}

class ArchiveWriter {
 public:
  explicit ArchiveWriter(const program::Program& program) : program_(program) {
    for (const auto& [name, tensor] : program.state.parameters) add_tensor(name, tensor, "parameter", weights_);
    for (const auto& [name, tensor] : program.state.buffers) add_tensor(name, tensor, "buffer", weights_);
  }

  std::string write(int dtype) {
    json values;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const std::string& name = program_.inputs[i].name;
      names_[program_.body.inputs[i]] = name;
      inputs_.push_back({{"user_input", {{"arg", test::as_tensor(name)}}}});
      values[name] = test::tensor_meta(dtype, {2, 12}, {12, 1}, false);
      values[name]["sizes"] = {test::symbol("s0", 2), test::symbol("s1", 12)};
    }
    for (const Op& op : program_.body.ops) add(op);
    const json output = test::as_tensor(name(program_.answer.slot));
    const json graph = {{"inputs", json::array()},
                        {"outputs", {output}},
                        {"nodes", nodes_},
                        {"tensor_values", values},
                        {"sym_int_values", json::object()}};
    const json call = {{"fqn", ""},
                       {"signature", {{"out_spec", R"([1, {"type": null, "context": null, "children_spec": []}])"}}}};
    const json signature = {{"input_specs", inputs_}, {"output_specs", {{{"user_output", {{"arg", output}}}}}}};
    const json model = {{"schema_version", {{"major", 8}, {"minor", 17}}},
                        {"verifiers", {"TRAINING"}},
                        {"range_constraints", json::object()},
                        {"graph_module",
                         {{"graph", graph},
                          {"signature", signature},
                          {"module_call_graph", {call}},
                          {"treespec_namedtuple_fields", json::object()}}}};
    records_.emplace_back("data/weights/model_weights_config.json", json{{"config", weights_}}.dump());
    records_.emplace_back("models/model.json", model.dump());
    records_.emplace_back("archive_format", "pt2");
    return test::zip(records_);
  }

 private:
  void add_tensor(const std::string& name, const at::Tensor& tensor, const std::string& role, json& config) {
    const std::string record = "weight_" + std::to_string(records_.size());
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    config[name] = {{"path_name", record},
                    {"use_pickle", false},
                    {"tensor_meta", test::tensor_meta(number_of(tensor.scalar_type()), bytes.sizes().vec(),
                                                      bytes.strides().vec(), tensor.requires_grad())}};
    records_.emplace_back("data/weights/" + record,
                          std::string(static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()));
    inputs_.push_back({{role, {{"arg", {{"name", "p_" + name}}}, {role + "_name", name}}}});
    tensors_[tensor.unsafeGetTensorImpl()] = "p_" + name;
  }

  std::string name(Slot slot) {
    if (program_.is_constant[slot]) return tensors_.at(program_.constants[slot].toTensor().unsafeGetTensorImpl());
    std::string& name = names_[slot];
    if (name.empty()) name = std::to_string(slot).insert(0, 1, 'v');
    return name;
  }

  json constant(const c10::IValue& value, const c10::TypePtr& type) {
    if (value.isNone()) return {{"as_none", true}};
    if (value.isTensor()) return test::as_tensor(tensors_.at(value.toTensor().unsafeGetTensorImpl()));
    if (value.isDevice()) return {{"as_device", {{"type", "cuda"}, {"index", 3}}}};  // the device of the export
    if (type->str().find("ScalarType") != std::string::npos)
      return {{"as_scalar_type", number_of(value.toScalarType())}};
    if (value.isBool()) return {{"as_bool", value.toBool()}};
    if (value.isInt()) return {{"as_int", value.toInt()}};
    if (value.isDouble()) return {{"as_float", value.toDouble()}};
    if (value.isIntList()) return {{"as_ints", value.toIntVector()}};
    throw std::runtime_error("exported_archive: a constant " + value.tagKind());
  }

  bool is_number(Slot slot) const { return numbers_.count(slot) > 0; }

  json list(const Op& op) {
    const bool tensors = op.type->containedType(0)->kind() == c10::TypeKind::TensorType;
    json elements = json::array();
    for (const Slot slot : op.inputs)
      if (tensors)
        elements.push_back({{"name", name(slot)}});
      else if (program_.is_constant[slot])
        elements.push_back({{"as_int", program_.constants[slot].toInt()}});
      else
        elements.push_back({{"as_name", name(slot)}});
    return {{tensors ? "as_tensors" : "as_sym_ints", elements}};
  }

  json argument(Slot slot, const c10::TypePtr& type) {
    if (lists_.count(slot)) return lists_.at(slot);
    if (program_.is_constant[slot]) return constant(program_.constants[slot], type);
    return is_number(slot) ? json{{"as_sym_int", {{"as_name", name(slot)}}}} : test::as_tensor(name(slot));
  }

  std::string modules(int region) const {
    const program::ModuleCallTreeNode& one = program_.regions[region];
    const std::string own =
        join(std::vector<std::string>{"key" + std::to_string(region), one.path, "some.where." + one.type}, ",");
    if (one.parent < 0) return own;
    return modules(one.parent).append(";").append(own);
  }

  // The node that makes the list names its elements.
  void unpack(const Op& op) {
    json elements = json::array();
    for (const Slot slot : op.outputs) elements.push_back({{"name", name(slot)}});
    nodes_.back()["outputs"] = json::array({{{"as_tensors", elements}}});
  }

  void add(const Op& op) {
    if (op.kind == InterpreterInstructionKind::list_unpack) return unpack(op);
    if (op.kind == InterpreterInstructionKind::list) {
      lists_[op.outputs[0]] = list(op);
      return;
    }
    const c10::FunctionSchema& schema = op.handle.value().schema();
    json inputs = json::array(), outputs = json::array();
    for (size_t i = 0; i < op.inputs.size(); ++i)
      inputs.push_back(
          {{"name", schema.arguments()[i].name()}, {"arg", argument(op.inputs[i], schema.arguments()[i].real_type())}});
    const bool number = schema.returns()[0].type()->kind() == c10::TypeKind::IntType;
    if (number) numbers_[op.outputs[0]] = true;
    for (const Slot slot : op.outputs)
      outputs.push_back(number ? json{{"as_sym_int", {{"as_name", name(slot)}}}} : test::as_tensor(name(slot)));
    const std::string& overload = schema.overload_name();
    nodes_.push_back(
        {{"target", "torch.ops.aten." + op.name.substr(6) + "." + (overload.empty() ? "default" : overload)},
         {"inputs", inputs},
         {"outputs", outputs},
         {"metadata",
          {{"nn_module_stack", modules(op.region)}, {"stack_trace", "File \"/a/decoder.py\", line 7, in forward"}}}});
  }

  const program::Program& program_;
  std::vector<std::pair<std::string, std::string>> records_;
  json weights_ = json::object(), inputs_ = json::array(), nodes_ = json::array();
  std::map<const void*, std::string> tensors_;
  std::map<Slot, std::string> names_;
  std::map<Slot, json> lists_;
  std::map<Slot, bool> numbers_;
};

}  // namespace

std::string exported_archive(const program::Program& program, int dtype) { return ArchiveWriter(program).write(dtype); }

}  // namespace memtune::tests
