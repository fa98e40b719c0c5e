#include <algorithm>
#include <charconv>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::plan {
namespace {

constexpr int64_t kMaxCount = 1'000'000;

std::string parse_word(const StrategyParameterInfo& info, const std::string& text) {
  for (const std::string& word : split(info.words, '|'))
    if (text == trim(word)) return text;
  throw UsageError("'" + text + "' is not one of " + std::string(info.words));
}

// Sorted: classes of ops in this order, then op names. No repeats.
std::vector<std::string> parse_names(const StrategyParameterInfo& info, const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& name : split(text, '+')) names.push_back(trim(name));
  if (std::ranges::count(names, "") > 0)
    throw UsageError("'" + text + "' has an empty name; it takes " + std::string(values_text(info)));
  const auto rank = [](const std::string& name) {
    const std::vector<std::string> classes = {"matmul", "matmul-all", "attention"};
    return std::pair(std::ranges::find(classes, name) - classes.begin(), name);
  };
  std::ranges::sort(names, {}, rank);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

template <typename Parse>
auto parse_within(const StrategyParameterInfo& info, const std::string& text, double least, double most,
                  const Parse& parse) {
  bool too_many = false;
  try {
    const auto number = parse(text, "");
    if (number >= least && number <= most) return number;
    too_many = number > most && most == kMaxCount;
  } catch (const UsageError&) {  // the message below says more
  }
  if (too_many) throw UsageError("'" + text + "' is more than " + std::to_string(kMaxCount));
  throw UsageError("'" + text + "' is not " + std::string(values_text(info)));
}

Value parse_value(const StrategyParameterInfo& info, const std::string& text) {
  switch (info.form) {
    case StrategyParameterType::words: return parse_word(info, text);
    case StrategyParameterType::names: return parse_names(info, text);
    case StrategyParameterType::share: return parse_within(info, text, 0, 1, parse_number) + 0.0;  // turns -0 into 0
    case StrategyParameterType::count: return parse_within(info, text, 0, kMaxCount, parse_integer);
    case StrategyParameterType::positive: return parse_within(info, text, 1, kMaxCount, parse_integer);
    case StrategyParameterType::bytes: return parse_bytes(text);
    case StrategyParameterType::blocks: return BlockSet(text);
  }
  return text;
}

// "16GiB", "1536MiB", "17B": exact, so that parsing gives the same count.
std::string exact_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes > 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return bytes == 0 ? "0" : std::to_string(bytes) + kUnits[unit];
}

// The shortest text that parses to the same number.
std::string share_text(double share) {
  char text[64];
  const auto end = std::to_chars(std::begin(text), std::end(text), share).ptr;
  return {std::begin(text), end};
}

struct Text {
  StrategyParameterType form;
  std::string operator()(const std::string& word) const { return word; }
  std::string operator()(const std::vector<std::string>& names) const { return join(names, "+"); }
  std::string operator()(double share) const { return share_text(share); }
  std::string operator()(int64_t number) const {
    return form == StrategyParameterType::bytes ? exact_bytes(number) : std::to_string(number);
  }
  std::string operator()(const BlockSet& blocks) const { return to_string(blocks); }
};

Value default_value(const StrategyParameterInfo& info) { return parse_value(info, std::string(info.default_value)); }

}  // namespace

StrategyPart::StrategyPart(const StrategyInfo& info, int64_t every) : info_(&info), every_(every) {
  for (const StrategyParameterInfo& parameter : info.parameters) values_.push_back(default_value(parameter));
}

bool StrategyPart::is_checkpoint() const { return info_->name.starts_with("checkpoint:"); }

bool StrategyPart::is_offload() const { return info_->name.starts_with("offload:"); }

bool StrategyPart::is_states() const { return info_->name.starts_with("states="); }

bool StrategyPart::offloads_inputs() const {
  if (info_->preset) return info_->preset->inputs;
  return has(StrategyParameterId::inputs) && place(StrategyParameterId::inputs) != TensorPlacement::keep;
}

size_t StrategyPart::index(StrategyParameterId parameter) const {
  return static_cast<size_t>(std::ranges::find(info_->parameters, parameter, &StrategyParameterInfo::parameter) -
                             info_->parameters.begin());
}

bool StrategyPart::has(StrategyParameterId parameter) const { return index(parameter) < values_.size(); }

const Value& StrategyPart::value(StrategyParameterId parameter) const { return values_.at(index(parameter)); }

const std::vector<std::string>& StrategyPart::names(StrategyParameterId parameter) const {
  return std::get<std::vector<std::string>>(value(parameter));
}

const BlockSet& StrategyPart::blocks() const {
  static const BlockSet all("all");
  return has(StrategyParameterId::blocks) ? std::get<BlockSet>(value(StrategyParameterId::blocks)) : all;
}

std::string StrategyPart::text(StrategyParameterId parameter) const {
  return std::visit(Text{info_->parameters[index(parameter)].form}, value(parameter));
}

std::string StrategyPart::setting(StrategyParameterId parameter) const {
  const std::string value = text(parameter);
  return std::string(info_->parameters[index(parameter)].name) + "=" + value;
}

std::vector<StrategyParameterId> StrategyPart::changed() const {
  std::vector<StrategyParameterId> changed;
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i] != default_value(info_->parameters[i])) changed.push_back(info_->parameters[i].parameter);
  return changed;
}

void StrategyPart::set(StrategyParameterId parameter, const std::string& text) {
  const StrategyParameterInfo& info = info_->parameters[index(parameter)];
  try {
    values_[index(parameter)] = parse_value(info, text);
  } catch (const UsageError& error) {
    throw UsageError(std::string(info_->name) + ": " + std::string(info.name) + ": " + error.what());
  }
}

bool StrategyPart::operator==(const StrategyPart& other) const {
  return info_ == other.info_ && every_ == other.every_ && values_ == other.values_;
}

std::string to_string(const StrategyPart& part) {
  std::string text(part.info().name);
  if (part.kind() == StrategyKind::checkpoint_every) text = "checkpoint:every=" + std::to_string(part.every());
  for (const StrategyParameterId parameter : part.changed()) text += "," + part.setting(parameter);
  return text;
}

}  // namespace memtune::plan
