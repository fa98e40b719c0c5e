#include "core/model/pt2/parsed_pt2_program.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/model/pt2/pt2_archive.h"
#include "core/model/pt2/pt2_sample_input.h"

namespace memtune::model {
namespace {

using nlohmann::json;

constexpr int64_t kSchema = 8;
const char* const kModel = "models/model.json";
const char* const kWeights = "data/weights/";
const char* const kConstants = "data/constants/";
const char* const kSamples = "data/sample_inputs/model.pt";

// --- inputs ---

const char* dtype_name(int64_t dtype) {
  static const std::map<int64_t, const char*> names = {{1, "uint8"}, {2, "int8"},     {3, "int16"},   {4, "int32"},
                                                       {5, "int64"}, {6, "float16"},  {7, "float32"}, {8, "float64"},
                                                       {12, "bool"}, {13, "bfloat16"}};
  const auto found = names.find(dtype);
  return found == names.end() ? "" : found->second;
}

// "Symbol('s13', positive=True, integer=True)" gives s13. For computed sizes the whole formula serves as symbol.
std::string symbol_in(const std::string& formula) {
  constexpr std::string_view kStart = "Symbol('";
  const size_t end = formula.find('\'', kStart.size());
  const bool plain =
      formula.starts_with(kStart) && end != std::string::npos && formula.find('(', end) == std::string::npos;
  return plain ? formula.substr(kStart.size(), end - kStart.size()) : formula;
}

InputDimension parse_dimension(const json& size, const json& ranges) {
  const auto [tag, held] = json_union(size);
  if (tag == "as_int") return {whole(*held, 0), "", 1};
  InputDimension dimension;
  dimension.symbol = symbol_in(json_word(held->at("expr_str")));
  dimension.size = whole_at(held->at("hint"), "as_int", 0);
  const auto range = ranges.find(dimension.symbol);
  if (range == ranges.end()) return dimension;
  const json &least = range->at("min_val"), &most = range->at("max_val");
  if (!least.is_null()) dimension.least = std::max<int64_t>(1, any_whole(least));
  if (!most.is_null()) dimension.most = any_whole(most);
  return dimension;
}

InputTensorDescription describe(const std::string& name, const json& graph, const json& ranges) {
  const json& meta = graph.at("tensor_values").at(name);
  InputTensorDescription input;
  input.name = name;
  input.dtype = dtype_name(whole_at(meta, "dtype"));
  for (const json& size : json_array(meta.at("sizes"))) input.dimensions.push_back(parse_dimension(size, ranges));
  return input;
}

Pt2Input held_tensor(Pt2Input::Role role, const json& spec, const char* name) {
  Pt2Input input;
  input.role = role;
  input.tensor = json_word(spec.at(name));
  input.argument.kind = Pt2ArgumentKind::tensor;
  input.argument.elements = {{json_word(spec.at("arg").at("name")), {}}};
  return input;
}

Pt2Input parse_input(const json& spec, const json& graph, const json& ranges) {
  using Role = Pt2Input::Role;
  const auto [tag, held] = json_union(spec);
  if (tag == "parameter") return held_tensor(Role::parameter, *held, "parameter_name");
  if (tag == "buffer") return held_tensor(Role::buffer, *held, "buffer_name");
  if (tag == "tensor_constant") return held_tensor(Role::constant, *held, "tensor_constant_name");
  Pt2Input input;
  if (tag == "constant_input") {
    input.argument = parse_pt2_argument(held->at("value"));
    input.argument.name = json_word(held->at("name"));
    return input;
  }
  if (tag != "user_input") throw UsageError("it takes a " + tag + ", which trainable programs do not have");
  input.argument = parse_pt2_argument(held->at("arg"));
  const bool is_tensor = input.argument.kind == Pt2ArgumentKind::tensor && !input.argument.is_list;
  if (is_tensor) input.described = describe(input.argument.elements[0].value, graph, ranges);
  const bool is_open = !input.argument.elements.empty() && !input.argument.elements[0].value.empty();
  if (is_open && !is_tensor && !input.argument.is_list)
    input.number =
        whole_at(graph.at("sym_int_values").at(input.argument.elements[0].value).at("as_expr").at("hint"), "as_int");
  return input;
}

// --- the model's output ---

// Keys of a dict or fields of an object. Fields of a named tuple are listed separately, by class.
std::vector<std::string> part_names(const json& tree, const json& named_tuples) {
  const json& context = tree.at("context");
  if (!context.is_string()) return {};
  json names = parse_json(json_word(context));
  if (names.is_string() && named_tuples.contains(json_word(names)))
    names = named_tuples.at(json_word(names)).at("field_names");
  std::vector<std::string> result;
  if (names.is_array())
    for (const json& name : names) result.push_back(name.is_string() ? json_word(name) : print_json(name));
  return result;
}

Pt2OutputTree parse_answer(const json& tree, const json& named_tuples) {
  Pt2OutputTree answer;
  answer.is_leaf = tree.at("type").is_null();
  const std::vector<std::string> names = answer.is_leaf ? std::vector<std::string>() : part_names(tree, named_tuples);
  const json& parts = json_array(tree.at("children_spec"));
  for (const json& part : parts) {
    answer.parts.push_back(parse_answer(part, named_tuples));
    if (names.size() == parts.size()) answer.parts.back().name = names[answer.parts.size() - 1];
  }
  return answer;
}

size_t leaves(const Pt2OutputTree& answer) {
  size_t count = answer.is_leaf;
  for (const Pt2OutputTree& part : answer.parts) count += leaves(part);
  return count;
}

// The structure of the model's output. If the file does not describe it or it does not match: a flat list of outputs.
Pt2OutputTree answer_of(const json& module, size_t outputs) {
  Pt2OutputTree flat{"", false, std::vector<Pt2OutputTree>(outputs)};
  for (const json& entry : json_array(module.at("module_call_graph"))) {
    const json& signature = entry.at("signature");
    if (!json_word(entry.at("fqn")).empty() || signature.is_null()) continue;
    Pt2OutputTree answer =
        parse_answer(parse_json(json_word(signature.at("out_spec"))).at(1), module.at("treespec_namedtuple_fields"));
    return leaves(answer) == outputs ? answer : flat;
  }
  return flat;
}

void check_version(const json& model) {
  const int64_t major = whole_at(model.at("schema_version"), "major");
  if (major != kSchema)
    throw UsageError("its schema is version " + std::to_string(major) + ", memtune reads " + std::to_string(kSchema) +
                     ": export it with torch 2.11");
  for (const json& verifier : json_array(model.at("verifiers")))
    if (json_word(verifier) != "TRAINING")
      throw UsageError("its program is decomposed (" + printable(json_word(verifier)).substr(0, 40) +
                       "): save what torch.export.export gives, before run_decompositions()");
}

ParsedPt2Program program_of(const json& model) {
  check_version(model);
  const json &module = model.at("graph_module"), &graph = module.at("graph"), &signature = module.at("signature");
  ParsedPt2Program program;
  program.graph = parse_pt2_graph(graph);
  for (const json& spec : json_array(signature.at("input_specs")))
    program.inputs.push_back(parse_input(spec, graph, model.at("range_constraints")));
  for (const json& spec : json_array(signature.at("output_specs"))) {
    const auto [tag, held] = json_union(spec);
    if (tag == "user_output" || tag == "loss_output") program.outputs.push_back(parse_pt2_argument(held->at("arg")));
  }
  program.answer = answer_of(module, program.outputs.size());
  return program;
}

// Attaches sample values to the tensor inputs of forward, which have the samples' order. Without a match nothing
// changes.
void describe_by(const std::vector<Pt2SampleInput>& samples, ParsedPt2Program& program) {
  std::vector<InputTensorDescription*> inputs;
  for (Pt2Input& input : program.inputs)
    if (!input.described.name.empty()) inputs.push_back(&input.described);
  if (inputs.size() != samples.size()) return;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto same = [](int64_t size, const InputDimension& dimension) { return size == dimension.size; };
    if (std::ranges::equal(samples[i].sizes, inputs[i]->dimensions, same)) inputs[i]->sample = samples[i].values;
  }
}

}  // namespace

bool has_part(const Pt2OutputTree& answer, std::string_view name) {
  return std::any_of(answer.parts.begin(), answer.parts.end(), [&](const auto& part) { return part.name == name; });
}

ParsedPt2Program parse_pt2_program(std::string_view model) { return program_of(parse_json(model)); }

ParsedPt2Program read_pt2_program(const Pt2Archive& archive) try {
  if (!archive.has("archive_format") || archive.text("archive_format") != "pt2" || !archive.has(kModel))
    throw UsageError("it is no archive of torch.export.save with one program");
  if (archive.has("byteorder") && archive.text("byteorder") != "little")
    throw UsageError("its weights are in big-endian order");
  ParsedPt2Program program = parse_pt2_program(archive.text(kModel));
  for (const auto& [folder, config] : {std::pair<std::string, std::string>{kWeights, "model_weights_config.json"},
                                       {kConstants, "model_constants_config.json"}}) {
    if (!archive.has(folder + config)) continue;
    for (Pt2TensorEntry& tensor : parse_pt2_tensors(archive.text(folder + config), folder)) {
      check_fits(tensor, archive.bytes(tensor.record));
      program.tensors.push_back(std::move(tensor));
    }
  }
  if (archive.has(kSamples)) describe_by(parse_pt2_samples(archive.text(kSamples)), program);
  return program;
} catch (const json::exception& error) {
  throw UsageError("its JSON is damaged, or of another schema: " + printable(error.what()).substr(0, 160));
}

}  // namespace memtune::model
