#include "core/plan/strategy/strategy.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::plan {
namespace {

constexpr const char* kEvery = "checkpoint:every";

const StrategyInfo& find_strategy(StrategyKind kind) {
  return *std::ranges::find(strategies(), kind, &StrategyInfo::kind);
}

const StrategyInfo& find_strategy(const std::string& name) {
  std::vector<std::string> known, members;
  for (const StrategyInfo& info : strategies()) {
    if (info.name == name) return info;
    known.emplace_back(info.name);
    if (info.name.starts_with(name + ":")) members.emplace_back(info.name);
  }
  if (!members.empty()) throw UsageError("'" + name + "' is a family of strategies: " + join(members, ", "));
  throw UsageError(unknown_name("strategy", name, known));
}

// '+' starts a new part only before "none" or a family name. Otherwise it separates ops in a list.
std::vector<std::string> split_parts(const std::string& text) {
  std::vector<std::string> parts;
  for (const std::string& piece : split(text, '+')) {
    const std::string name = trim(piece);
    if (parts.empty() || name == "none" || name.starts_with("checkpoint:") || name.starts_with("offload:") ||
        name.starts_with("states="))
      parts.push_back(piece);
    else
      parts.back() += "+" + piece;
  }
  return parts;
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

StrategyPart parse_head(const std::string& head) {
  const size_t equals = head.find('=');
  // '+' without a family name after it is an error, reported for the text that follows.
  if (const size_t plus = head.find('+'); plus != std::string::npos) find_strategy(trim(head.substr(plus + 1)));
  if (head == kEvery) throw UsageError("checkpoint:every needs its number: checkpoint:every=2 is every second block");
  if (equals != std::string::npos && trim(head.substr(0, equals)) == kEvery)
    return StrategyPart(find_strategy(StrategyKind::checkpoint_every),
                        parse_every(head, trim(head.substr(equals + 1))));
  return StrategyPart(find_strategy(head));
}

const StrategyParameterInfo& find_parameter(const StrategyInfo& info, const std::string& name) {
  std::vector<std::string> known;
  for (const StrategyParameterInfo& parameter : info.parameters) {
    if (parameter.name == name) return parameter;
    known.emplace_back(parameter.name);
  }
  const std::string strategy(info.name);
  if (known.empty()) throw UsageError(strategy + " takes no parameters, so '" + name + "' means nothing to it");
  throw UsageError(unknown_name("parameter of " + strategy, name, known));
}

// Parses one "key=value"; `given` holds the keys before it.
void parse_parameter(const std::string& text, StrategyPart& part, std::vector<StrategyParameterId>& given) {
  const std::string strategy(part.info().name);
  const size_t equals = text.find('=');
  const std::string name = trim(text.substr(0, equals));
  if (name.empty()) throw UsageError(strategy + ": '" + text + "' names no parameter; write key=value");
  const StrategyParameterInfo& info = find_parameter(part.info(), name);
  if (equals == std::string::npos)
    throw UsageError(strategy + ": " + name + " needs a value: " + name + "=" + std::string(info.default_value));
  if (std::ranges::count(given, info.parameter) > 0) throw UsageError(strategy + ": " + name + " is given twice");
  given.push_back(info.parameter);
  part.set(info.parameter, trim(text.substr(equals + 1)));
}

StrategyPart parse_part(const std::string& text) {
  const std::vector<std::string> pieces = split(text, ',');
  StrategyPart part = parse_head(trim(pieces[0]));
  std::vector<StrategyParameterId> given;
  for (size_t i = 1; i < pieces.size(); ++i) parse_parameter(trim(pieces[i]), part, given);
  return part;
}

// A plan has one TransferSettings. Parts may differ only in which activations are copied and where to.
void check_same_transfers(const StrategyPart& a, const StrategyPart& b) {
  const std::string name(a.info().name);
  if (&a.info() != &b.info())
    throw UsageError(name + " and " + std::string(b.info().name) + " exclude each other: a plan copies in one way");
  for (const StrategyParameterInfo& info : a.info().parameters) {
    if (!info.schedules || a.text(info.parameter) == b.text(info.parameter)) continue;
    throw UsageError(name + ": " + std::string(info.name) + " must be the same in every part, not " +
                     a.text(info.parameter) + " and " + b.text(info.parameter));
  }
}

void check_together(const StrategyPart& a, const StrategyPart& b) {
  if (a.kind() == StrategyKind::none || b.kind() == StrategyKind::none)
    throw UsageError("none keeps everything: nothing can be joined to it");
  if (a.is_checkpoint() != b.is_checkpoint() || a.is_states() != b.is_states()) return;
  if (a.is_offload()) check_same_transfers(a, b);
  if (a.blocks().overlaps(b.blocks()))
    throw UsageError(std::string(a.info().name) + " and " + std::string(b.info().name) +
                     " are for the same blocks; give each its own, as blocks=0-9 and blocks=10-");
}

// For a part that offloads its inputs.
StrategyPart with_inputs_kept(StrategyPart part) {
  if (part.has(StrategyParameterId::inputs)) {
    part.set(StrategyParameterId::inputs, "keep");
    return part;
  }
  const int every = part.has(StrategyParameterId::every) ? part.count(StrategyParameterId::every) : 1;
  return StrategyPart(find_strategy(every > 1 ? StrategyKind::checkpoint_every : StrategyKind::checkpoint_full), every);
}

}  // namespace

// Where states are does not depend on where activations are, so those parts have one place: the end.
Strategy::Strategy(std::vector<StrategyPart> parts) : parts_(std::move(parts)) {
  std::stable_partition(parts_.begin(), parts_.end(), [](const StrategyPart& part) { return !part.is_states(); });
  for (size_t b = 0; b < parts_.size(); ++b)
    for (size_t a = 0; a < b; ++a) check_together(parts_[a], parts_[b]);
}

Strategy::Strategy() : parts_{StrategyPart(find_strategy(StrategyKind::none))} {}

Strategy Strategy::parse(const std::string& text) {
  std::vector<StrategyPart> parts;
  for (const std::string& part : split_parts(text)) parts.push_back(parse_part(part));
  return Strategy(std::move(parts));
}

std::optional<Strategy> Strategy::of_name(const std::string& name) try {
  return parse(name);
} catch (const UsageError&) {
  return std::nullopt;
}

bool Strategy::is_none() const { return parts_.front().kind() == StrategyKind::none; }

bool Strategy::offloads() const { return std::ranges::any_of(parts_, &StrategyPart::is_offload); }

bool Strategy::recomputes() const { return std::ranges::any_of(parts_, &StrategyPart::is_checkpoint); }

bool Strategy::offloads_states() const { return std::ranges::any_of(parts_, &StrategyPart::is_states); }

bool Strategy::offloads_activations() const {
  return offloads() || std::ranges::any_of(parts_, &StrategyPart::offloads_inputs);
}

bool Strategy::uses_disk() const {
  return std::ranges::any_of(parts_, [](const StrategyPart& part) {
    return std::ranges::any_of(std::vector{StrategyParameterId::inputs, StrategyParameterId::tier},
                               [&](StrategyParameterId parameter) {
                                 return part.has(parameter) && part.place(parameter) == TensorPlacement::disk;
                               });
  });
}

Strategy Strategy::with(StrategyParameterId parameter, const std::string& value) const {
  return with(parameter, [&](const StrategyPart&) { return value; });
}

Strategy Strategy::with(StrategyParameterId parameter,
                        const std::function<std::string(const StrategyPart& part)>& value) const {
  std::vector<StrategyPart> parts = parts_;
  for (StrategyPart& part : parts)
    if (part.has(parameter)) part.set(parameter, value(part));
  return Strategy(std::move(parts));
}

Strategy Strategy::without(bool (StrategyPart::*is_left_out)() const) const {
  std::vector<StrategyPart> parts;
  std::ranges::remove_copy_if(parts_, std::back_inserter(parts), is_left_out);
  return parts.empty() ? Strategy() : Strategy(std::move(parts));
}

Strategy Strategy::without_offload() const {
  Strategy left = without(&StrategyPart::is_offload);
  for (StrategyPart& part : left.parts_)
    if (part.offloads_inputs()) part = with_inputs_kept(part);
  return left;
}

Strategy Strategy::without_recompute() const { return without(&StrategyPart::is_checkpoint); }

std::vector<Strategy> Strategy::with_one_less() const {
  std::vector<Strategy> less;
  for (size_t i = 0; i < parts_.size(); ++i) {
    std::vector<StrategyPart> parts = parts_;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    if (!parts.empty()) less.push_back(Strategy(std::move(parts)));
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].offloads_inputs()) continue;
    std::vector<StrategyPart> parts = parts_;
    parts[i] = with_inputs_kept(parts[i]);
    less.push_back(Strategy(std::move(parts)));
  }
  return less;
}

Strategy Strategy::with(StrategyKind from, StrategyKind to, int64_t every) const {
  std::vector<StrategyPart> parts = parts_;
  for (StrategyPart& part : parts) {
    if (part.kind() != from) continue;
    StrategyPart other(find_strategy(to), every);
    for (const StrategyParameterId parameter : part.changed())
      if (other.has(parameter)) other.set(parameter, part.text(parameter));
    part = other;
  }
  return Strategy(std::move(parts));
}

std::string to_string(const Strategy& strategy) {
  std::vector<std::string> parts;
  for (const StrategyPart& part : strategy.parts()) parts.push_back(to_string(part));
  return join(parts, "+");
}

std::string canonical_name(const std::string& name) {
  const std::optional<Strategy> strategy = Strategy::of_name(name);
  return strategy ? to_string(*strategy) : name;
}

}  // namespace memtune::plan
