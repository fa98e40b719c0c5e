#include "core/plan/strategy_spec.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/strategy_parts.h"
#include "core/plan/strategy_table.h"

namespace memtune::plan {
namespace {

constexpr const char* kEvery = "checkpoint:every";
constexpr int64_t kMostCount = 1'000'000;

const StrategyInfo& find_strategy(const std::string& name) {
  std::vector<std::string> known;
  for (const StrategyInfo& info : strategies()) {
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
  // A '+' that began no part: what follows it is no family.
  if (const size_t plus = head.find('+'); plus != std::string::npos) find_strategy(trim(head.substr(plus + 1)));
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

void check_list(const std::string& value) {
  for (const std::string& element : split(value, '+'))
    if (trim(element).empty()) throw UsageError("'" + value + "' has an empty name; it takes " + kOps);
}

void check_enumeration(const std::string& value, const std::string& values) {
  for (const std::string& known : split(values, '|'))
    if (value == trim(known)) return;
  throw UsageError("'" + value + "' is not one of " + values);
}

void check_number(const std::string& value, double least, double most, const char* form) {
  bool fits = false;
  try {
    const double number = form == kShare ? parse_number(value, "") : static_cast<double>(parse_integer(value, ""));
    fits = number >= least && number <= most;
  } catch (const UsageError&) {  // the message below says more
  }
  if (!fits) throw UsageError("'" + value + "' is not " + form);
}

void check_form(const std::string& values, const std::string& value) {
  if (values == kBytes)
    parse_bytes(value);
  else if (values == kOps)
    check_list(value);
  else if (values == kShare)
    check_number(value, 0, 1, kShare);
  else if (values == kCount)
    check_number(value, 0, kMostCount, kCount);
  else if (values == kPositive)
    check_number(value, 1, kMostCount, kPositive);
  else if (values == kRanges)
    BlockRanges{value};
  else
    check_enumeration(value, values);
}

void check_value(const std::string& strategy, const ParameterInfo& parameter, const std::string& value) {
  try {
    check_form(parameter.values, value);
  } catch (const UsageError& error) {
    throw UsageError(strategy + ": " + parameter.name + ": " + error.what());
  }
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

StrategySpec parse_part(const std::string& text) {
  const std::vector<std::string> pieces = split(text, ',');
  StrategySpec spec = parse_head(trim(pieces[0]));
  std::vector<std::string> given;
  for (size_t i = 1; i < pieces.size(); ++i) parse_parameter(trim(pieces[i]), spec, given);
  return spec;
}

// A plan has one way of copying: only what is copied, and to where, may differ from part to part.
void check_same_transfers(const StrategySpec& a, const StrategySpec& b) {
  if (a.info != b.info)
    throw UsageError(a.info->name + " and " + b.info->name + " exclude each other: a plan copies in one way");
  for (const std::string name : {"memory", "min", "stash", "prefetch", "in_flight"})
    if (a.has(name) && a.value(name) != b.value(name))
      throw UsageError(a.info->name + ": " + name + " must be the same in every part, not " + a.value(name) + " and " +
                       b.value(name));
}

void check_together(const StrategySpec& a, const StrategySpec& b) {
  if (a.values.empty() || b.values.empty()) throw UsageError("none keeps everything: nothing can be joined to it");
  if (a.is_checkpoint() != b.is_checkpoint()) return;
  if (a.is_offload()) check_same_transfers(a, b);
  if (a.blocks().overlaps(b.blocks()))
    throw UsageError(a.info->name + " and " + b.info->name + " are for the same blocks; give each its own, as " +
                     "blocks=0-9 and blocks=10-");
}

}  // namespace

int64_t StrategySpec::bytes(const std::string& parameter) const { return parse_bytes(value(parameter)); }

int StrategySpec::count(const std::string& parameter) const {
  return static_cast<int>(parse_integer(value(parameter), parameter));
}

double StrategySpec::share(const std::string& parameter) const { return parse_number(value(parameter), parameter); }

config::Place StrategySpec::place(const std::string& parameter) const { return config::parse_place(value(parameter)); }

std::vector<std::string> StrategySpec::list(const std::string& parameter) const {
  std::vector<std::string> elements = split(value(parameter), '+');
  for (std::string& element : elements) element = trim(element);
  return elements;
}

BlockRanges StrategySpec::blocks() const { return BlockRanges(value("blocks")); }

std::vector<StrategySpec> parse_strategy(const std::string& text) {
  std::vector<StrategySpec> parts;
  for (const std::string& part : config::split_parts(text)) {
    parts.push_back(parse_part(part));
    for (size_t i = 0; i + 1 < parts.size(); ++i) check_together(parts[i], parts.back());
  }
  return parts;
}

void check_strategy(const std::string& spec) { parse_strategy(spec); }

bool uses_disk(const std::string& spec) {
  const auto on_disk = [](const StrategySpec& part) {
    return (part.has("inputs") && part.value("inputs") == "disk") || (part.has("tier") && part.value("tier") == "disk");
  };
  const std::vector<StrategySpec> parts = parse_strategy(spec);
  return std::any_of(parts.begin(), parts.end(), on_disk);
}

}  // namespace memtune::plan
