#include "core/plan/strategy_spec.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::plan {
namespace {

constexpr const char* kEvery = "checkpoint:every";
// What a parameter takes: one of these, or the words of an enumeration with " | " between them.
constexpr const char* kBytes = "bytes, as 512MiB";
constexpr const char* kOps = "matmul, matmul-all, attention or op names, with + between";

const ParameterInfo kInputs = {"inputs", "keep | host", "keep", "where the inputs of checkpointed blocks wait"};
const ParameterInfo kSave = {"save", kOps, "matmul+attention",
                             "ops whose outputs stay; matmul is every other one of a block, matmul-all is all of them"};
const ParameterInfo kStash = {
    "stash", kBytes, "2GiB",
    "sources kept on the device while their copies out run; at most an eighth of what a step moves"};
const ParameterInfo kMin = {"min", kBytes, "1MiB", "smaller tensors stay on the device"};
const ParameterInfo kPrefetch = {"prefetch", kBytes, "1GiB", "copied back ahead of the value that backward is at"};
const ParameterInfo kHead = {"head", "keep | move", "keep", "what comes behind the last block: norm, output, loss"};

const StrategyInfo kStrategies[] = {
    {"none", "keep everything: the baseline", {}},
    {"checkpoint:full", "keep each block's inputs, recompute the rest in backward", {kInputs}},
    {"checkpoint:every=n", "the same for every n-th block only, from the first on", {kInputs}},
    {"checkpoint:op", "recompute blocks but for the outputs of costly ops", {kSave, kInputs}},
    {"offload:sync", "move values to host memory, with copies that compute waits for", {kMin, kHead}},
    {"offload:stream", "move values to host memory on a side stream, beside compute", {kStash, kMin, kPrefetch, kHead}},
};

const StrategyInfo& find_strategy(const std::string& name) {
  std::vector<std::string> known;
  for (const StrategyInfo& info : kStrategies) {
    if (info.name == name) return info;
    known.push_back(info.name);
  }
  throw UsageError(unknown_name("strategy", name, known));
}

int64_t parse_every(const std::string& head, const std::string& text) {
  int64_t every = 0;
  try {
    every = parse_integer(text, "n");
  } catch (const UsageError&) {  // the message below says more
  }
  if (every < 1) throw UsageError(head + ": n must be a whole number of at least 1, as in checkpoint:every=2");
  return every;
}

StrategySpec parse_head(const std::string& head) {
  StrategySpec spec;
  const size_t equals = head.find('=');
  if (head == kEvery) throw UsageError("checkpoint:every needs its number: checkpoint:every=2 is every second block");
  if (equals != std::string::npos && trim(head.substr(0, equals)) == kEvery) {
    spec.info = &find_strategy("checkpoint:every=n");
    spec.every = parse_every(head, trim(head.substr(equals + 1)));
  } else {
    spec.info = &find_strategy(head);
  }
  for (const ParameterInfo& parameter : spec.info->parameters) spec.values[parameter.name] = parameter.default_value;
  return spec;
}

const ParameterInfo& find_parameter(const StrategyInfo& info, const std::string& name) {
  std::vector<std::string> known;
  for (const ParameterInfo& parameter : info.parameters) {
    if (parameter.name == name) return parameter;
    known.push_back(parameter.name);
  }
  if (known.empty()) throw UsageError(info.name + " takes no parameters, so '" + name + "' means nothing to it");
  throw UsageError(unknown_name("parameter of " + info.name, name, known));
}

void check_bytes(const std::string& what, const std::string& value) {
  try {
    parse_bytes(value);
  } catch (const UsageError& error) {
    throw UsageError(what + ": " + error.what());
  }
}

void check_list(const std::string& what, const std::string& value) {
  for (const std::string& element : split(value, '+'))
    if (trim(element).empty()) throw UsageError(what + ": '" + value + "' has an empty name; it takes " + kOps);
}

void check_enumeration(const std::string& what, const std::string& value, const std::string& values) {
  for (const std::string& known : split(values, '|'))
    if (value == trim(known)) return;
  throw UsageError(what + ": '" + value + "' is not one of " + values);
}

void check_value(const std::string& strategy, const ParameterInfo& parameter, const std::string& value) {
  const std::string what = strategy + ": " + parameter.name;
  if (parameter.values == kBytes)
    check_bytes(what, value);
  else if (parameter.values == kOps)
    check_list(what, value);
  else
    check_enumeration(what, value, parameter.values);
}

// One "key=value" behind the name; `given` holds the keys before it.
void parse_parameter(const std::string& text, StrategySpec& spec, std::vector<std::string>& given) {
  const StrategyInfo& info = *spec.info;
  const size_t equals = text.find('=');
  const std::string name = trim(text.substr(0, equals));
  if (name.empty()) throw UsageError(info.name + ": '" + text + "' names no parameter; write key=value");
  const ParameterInfo& parameter = find_parameter(info, name);
  if (equals == std::string::npos)
    throw UsageError(info.name + ": " + name + " needs a value: " + name + "=" + parameter.default_value);
  if (std::find(given.begin(), given.end(), name) != given.end())
    throw UsageError(info.name + ": " + name + " is given twice");
  given.push_back(name);
  spec.values[name] = trim(text.substr(equals + 1));
  check_value(info.name, parameter, spec.values[name]);
}

}  // namespace

std::span<const StrategyInfo> strategies() { return kStrategies; }

int64_t StrategySpec::bytes(const std::string& parameter) const { return parse_bytes(value(parameter)); }

std::vector<std::string> StrategySpec::list(const std::string& parameter) const {
  std::vector<std::string> elements = split(value(parameter), '+');
  for (std::string& element : elements) element = trim(element);
  return elements;
}

StrategySpec parse_strategy(const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  StrategySpec spec = parse_head(trim(parts[0]));
  std::vector<std::string> given;
  for (size_t i = 1; i < parts.size(); ++i) parse_parameter(trim(parts[i]), spec, given);
  return spec;
}

void check_strategy(const std::string& spec) { parse_strategy(spec); }

}  // namespace memtune::plan
