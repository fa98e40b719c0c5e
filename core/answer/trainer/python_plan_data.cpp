#include "core/answer/trainer/python_plan_data.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;
using plan::TensorPlacement;

constexpr std::string_view kPlanBegin = "PLAN: dict[str, Any] = {\n";
constexpr size_t kColumns = 118;

std::string literal(const std::string& text) { return print_json(text); }  // the same syntax in Python

std::string to_text(TorchFunctionResultAndSavePlacements places) {
  return to_string(places.result) + " " + to_string(places.own);
}

// Breaks lines at kColumns.
std::string numbers(const std::vector<int>& list, size_t indent) {
  std::string text = "[";
  size_t line = indent;
  for (const int number : list) {
    const std::string word = (text.size() == 1 ? "" : ", ") + std::to_string(number);
    line += word.size();
    const bool breaks = line > kColumns;
    text += breaks ? ",\n" + std::string(indent, ' ') + std::to_string(number) : word;
    if (breaks) line = indent + word.size();
  }
  return text + "]";
}

// Joins names into few string literals, one per line.
void put_names(const std::vector<std::string>& names, const std::string& indent, std::string& text) {
  std::string line;
  for (const std::string& name : names) {
    if (!line.empty() && indent.size() + line.size() + name.size() + 4 > kColumns) {
      text += indent + literal(line + " ") + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + name;
  }
  text += indent + literal(line);
}

void put_block_policy(const EqualBlocksTorchFunctionPlacements& block_policy, std::string& text) {
  const std::string head = "        {\"blocks\": ";
  text += head + numbers(block_policy.blocks, head.size() + 1) + ",\n";
  text += "         \"others\": " + literal(to_text(block_policy.others)) + ", \"ops\": {\n";
  std::map<TorchFunctionResultAndSavePlacements, std::vector<std::string>> groups;
  for (const auto& [name, places] : block_policy.functions) groups[places].push_back(name);
  for (const auto& [places, names] : groups) {
    text += "             " + literal(to_text(places)) + ":\n";
    put_names(names, "                 ", text);
    text += ",\n";
  }
  text += "         }},\n";
}

void put_places(const PythonPlanData& data, std::string& text) {
  if (data.offloads_activations)
    text += "    \"input\": \"" + std::string(data.offloads_input ? "host" : "keep") + "\",  # of the first block\n";
  text += "    \"regions\":  # module paths that functions are named by\n";
  put_names(data.regions, "        ", text);
  text += ",\n";
  text +=
      "    # \"module path/function#occurrence\", by the places of what it returns and of what it saves for itself.\n";
  text += "    \"treatments\": [\n";
  for (const EqualBlocksTorchFunctionPlacements& block_policy : data.block_policies)
    put_block_policy(block_policy, text);
  text += "    ],\n";
}

void put_states(const PythonPlanOffloadedStates& states, std::string& text) {
  const std::string head = "        \"parameters\": ";
  text += "    \"states\": {  # in host memory: parameters and optimizer states of these blocks\n";
  text += head + numbers(states.parameters, head.size() + 1) + ",\n";
  text += "        \"moments\": " + numbers(states.moments, head.size() + 1) + ",\n";
  text += "        \"outside\": " + std::to_string(int{states.outside}) +
          ", \"deferred\": " + std::to_string(int{states.deferred}) + "},\n";
}

// Converts the dictionary after kPlanBegin to JSON: drops comments and trailing commas, and joins adjacent strings.
// Refuses anything but strings, numbers and brackets.
class Literals {
 public:
  explicit Literals(std::string_view text) : text_(text) {}

  std::string as_json() {
    do {
      const char c = text_[at_];
      if (c == '"')
        take_string();
      else if (c == '#')
        skip_comment();
      else if (c == ' ' || c == '\n')
        skip_blank();
      else
        take_mark(c);
      if (at_ == text_.size()) refuse();
    } while (depth_ > 0);
    return json_;
  }

 private:
  [[noreturn]] static void refuse() { throw UsageError("PLAN is more than strings, numbers and brackets"); }

  void take_string() {
    const size_t begin = at_;
    for (++at_; at_ < text_.size() && text_[at_] != '"';) at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) refuse();
    const bool is_continuation = json_.ends_with('"');
    if (is_continuation) json_.pop_back();
    json_ += text_.substr(begin + (is_continuation ? 1 : 0), ++at_ - begin - (is_continuation ? 1 : 0));
  }

  // A blank after a digit is kept, to separate numbers.
  void skip_blank() {
    if (!json_.empty() && std::isdigit(static_cast<unsigned char>(json_.back()))) json_ += ' ';
    ++at_;
  }

  void skip_comment() {
    const std::string_view comment = text_.substr(at_, text_.find('\n', at_) - at_);
    if (printable(comment) != comment) refuse();  // Python might end the comment earlier
    at_ += comment.size();
  }

  void take_mark(char c) {
    if (std::string_view("0123456789-{}[]:,").find(c) == std::string_view::npos) refuse();
    if ((c == '}' || c == ']') && json_.ends_with(',')) json_.pop_back();
    depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    json_ += c;
    ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string json_;
};

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names = split(text, ' ');
  std::erase(names, "");
  return names;
}

TorchFunctionResultAndSavePlacements read_places(const std::string& text) {
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() != 2) throw UsageError("'" + text + "' are no two places");
  const TorchFunctionResultAndSavePlacements places{plan::parse_place(words[0]), plan::parse_place(words[1])};
  if (places.result == TensorPlacement::disk || places.own == TensorPlacement::disk)
    throw UsageError("Python has no disk");
  return places;
}

EqualBlocksTorchFunctionPlacements read_block_policy(const json& value, const std::string& path, int blocks) {
  JsonObjectReader object(value, path);
  object.require({"blocks", "others", "ops"});
  EqualBlocksTorchFunctionPlacements block_policy;
  std::string others;
  object.read("blocks", block_policy.blocks, 0, blocks - 1);
  object.read("others", others);
  block_policy.others = read_places(others);
  JsonObjectReader ops(*object.find("ops"), object.path("ops"));
  for (const auto& [places, unused] : object.find("ops")->items()) {
    const TorchFunctionResultAndSavePlacements read = read_places(places);
    std::string names;
    ops.read(places.c_str(), names);
    for (const std::string& name : names_in(names)) block_policy.functions[name] = read;
  }
  object.finish();
  return block_policy;
}

PythonPlanOffloadedStates read_states(JsonObjectReader& object, int blocks) {
  JsonObjectReader inner(*object.find("states"), object.path("states"));
  inner.require({"parameters", "moments", "outside", "deferred"});
  PythonPlanOffloadedStates states;
  int outside = 0, deferred = 0;
  inner.read("parameters", states.parameters, 0, blocks - 1);
  inner.read("moments", states.moments, 0, blocks - 1);
  inner.read("outside", outside, 0, 1);
  inner.read("deferred", deferred, 0, 1);
  inner.finish();
  states.outside = outside == 1;
  states.deferred = deferred == 1;
  return states;
}

void read_eager(JsonObjectReader& object, PythonPlanData& data) {
  object.require({"regions", "treatments", "saved_min_bytes"});
  std::string regions, input = "keep";
  object.read("regions", regions);
  if (data.offloads_activations) object.read("input", input);
  data.regions = names_in(regions);
  data.offloads_input = plan::parse_place(input) == TensorPlacement::host;
  for (const json& block_policy : object.array("treatments"))
    data.block_policies.push_back(
        read_block_policy(block_policy, object.path("treatments", data.block_policies.size()), data.blocks));
  object.read("saved_min_bytes", data.saved_min_bytes, 0);
  if (object.find("states")) data.states = read_states(object, data.blocks);
}

void read_compiled(JsonObjectReader& object, PythonPlanData& data) {
  object.require({"compile", "peak_bytes"});
  JsonObjectReader compile(*object.find("compile"), object.path("compile"));
  compile.require({"left_bytes", "hidden_bytes"});
  compile.read("left_bytes", data.left_bytes, 0);
  compile.read("hidden_bytes", data.hidden_bytes, 0);
  compile.finish();
  object.read("peak_bytes", data.peak_bytes, 0);
}

}  // namespace

std::string to_python(const PythonPlanData& data) {
  std::string text(kPlanBegin);
  text += "    \"name\": " + literal(data.name) + ", \"path\": " + literal(data.path) +
          ", \"blocks\": " + std::to_string(data.blocks) + ", \"parameters\": " + std::to_string(data.parameters) +
          ",\n";
  if (!data.compiled) put_places(data, text);
  if (data.offloads_activations)
    text += "    \"min_bytes\": " + std::to_string(data.min_bytes) +
            ", \"stash_bytes\": " + std::to_string(data.stash_bytes) +
            ", \"prefetch_blocks\": " + std::to_string(data.prefetch_blocks) + ",\n";
  if (!data.compiled) text += "    \"saved_min_bytes\": " + std::to_string(data.saved_min_bytes) + ",\n";
  if (data.states) put_states(*data.states, text);
  if (data.compiled)
    text +=
        "    # What all blocks may leave on the device, as the plan does, and what can move while a forward runs.\n"
        "    \"compile\": {\"left_bytes\": " +
        std::to_string(data.left_bytes) + ", \"hidden_bytes\": " + std::to_string(data.hidden_bytes) +
        "}, \"peak_bytes\": " + std::to_string(data.peak_bytes) + ",\n";
  return text + "}\n";
}

PythonPlanData read_python_data(std::string_view file) {
  const size_t begin = file.find("\n" + std::string(kPlanBegin));
  if (begin == std::string_view::npos) throw UsageError("it has no PLAN");
  const json values = parse_json_object("PLAN", Literals(file.substr(begin + kPlanBegin.size() - 1)).as_json());
  JsonObjectReader object(values, "PLAN");
  object.require({"name", "path", "blocks", "parameters"});
  PythonPlanData data;
  data.compiled = object.find("compile") != nullptr;
  data.offloads_activations = data.compiled || object.find("min_bytes") != nullptr;
  object.read("name", data.name);
  object.read("path", data.path);
  object.read("blocks", data.blocks, 1);
  object.read("parameters", data.parameters, 0);
  if (data.offloads_activations) object.require({"min_bytes", "stash_bytes", "prefetch_blocks"});
  object.read("min_bytes", data.min_bytes, 0);
  object.read("stash_bytes", data.stash_bytes, 0);
  object.read("prefetch_blocks", data.prefetch_blocks, 0);
  data.compiled ? read_compiled(object, data) : read_eager(object, data);
  object.finish();
  return data;
}

}  // namespace memtune::trainer
