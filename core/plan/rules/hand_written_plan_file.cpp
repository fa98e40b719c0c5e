#include "core/plan/rules/hand_written_plan_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/plan/rules/activation_placement_draft.h"
#include "core/plan/rules/plan_check.h"
#include "core/plan/rules/rule_scope.h"
#include "core/plan/rules/strategy.h"
#include "core/plan/strategy/plan_reader.h"

namespace memtune::plan {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

json parse_text(const std::string& text) try {
  return parse_json(text, JsonDuplicateKeyPolicy::refused);
} catch (const json::parse_error& error) {
  throw UsageError(not_json_text(text, error.byte).substr(1));
} catch (const json::exception& error) {
  throw UsageError(error.what());
}

// Prefixes `where` to the text of a UsageError.
template <typename Action>
auto within(const std::string& where, const Action& action) try {
  return action();
} catch (const UsageError& error) {
  throw UsageError(where + error.what());
}

std::optional<TensorPlacement> read_place(JsonObjectReader& object, const char* key) {
  std::string text;
  object.read(key, text);
  if (text.empty()) return std::nullopt;
  return within(object.path(key) + ": ", [&] { return parse_place(text); });
}

PlacementRule read_rule(const json& value, const std::string& path) {
  PlacementRule rule;
  std::string blocks;
  JsonObjectReader object(value, path);
  object.read("blocks", blocks);
  object.read("region", rule.region);
  object.read("op", rule.op);
  object.read("inputs_of", rule.inputs_of);
  rule.outputs = read_place(object, "outputs");
  rule.saved = read_place(object, "saved");
  object.finish();
  if (!blocks.empty()) rule.blocks = within(object.path("blocks") + ": ", [&] { return BlockSet(blocks); });
  if (blocks.empty() && rule.region.empty() && rule.op.empty() && rule.inputs_of.empty())
    throw UsageError(path + " selects nothing: give it blocks, region, op or inputs_of");
  if (!rule.outputs && !rule.saved) throw UsageError(path + " places nothing: give it outputs or saved");
  if (rule.saved && !rule.inputs_of.empty())
    throw UsageError(path + ".saved is for ops, inputs_of selects activations: give each a rule of its own");
  return rule;
}

// Tables show the name next to strategies, and file names contain it.
void check_name(const std::string& path, const std::string& name) {
  if (trim(name).empty() || printable_line(name) != name) throw UsageError(path + " must be a line of text");
  if (Strategy::of_name(name)) throw UsageError(path + ": '" + name + "' is a strategy's; give the plan another name");
}

void apply(const PlacementRule& rule, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
           ActivationPlacementDraft& draft) {
  for (const RuleMatchedOpOutput& one : select(rule, facts, graph)) {
    if (rule.saved) draft.set(one.op, kPrivateSave, *rule.saved);
    if (!rule.outputs) continue;
    if (one.output == RuleMatchedOpOutput::kAll)
      draft.set_outputs(one.op, *rule.outputs);
    else
      draft.set(one.op, one.output, *rule.outputs);
  }
}

}  // namespace

HandWrittenPlanFile::HandWrittenPlanFile(const std::filesystem::path& path)
    : file_(path.filename().string()), name_(path.stem().string()) {
  require_file("--plan", path);
  within(file_ + ": ", [&] { read(read_file(path)); });
}

void HandWrittenPlanFile::read(const std::string& text) {
  json value = parse_text(text);
  JsonObjectReader object(value, "plan");
  object.require({"version"});
  int version = kVersion;
  object.read("version", version, kVersion, kVersion);
  object.read("name", name_);
  check_name(object.path("name"), name_);
  if (object.find("placements")) {
    value.erase("name");
    whole_ = read_plan_strictly(value);
    return;
  }
  std::string strategy = "none";
  object.read("strategy", strategy);
  strategy_ = within(object.path("strategy") + ": ", [&] { return Strategy::parse(strategy); });
  for (const json& rule : object.array("rules")) rules_.push_back(read_rule(rule, object.path("rules", rules_.size())));
  Plan checked;
  if (const json* transfer = object.find("transfer")) {
    read_transfer(*transfer, object.path("transfer"), checked.transfer);
    transfer_ = transfer->dump();
  }
  object.read("saved_min_bytes", checked.saved_min_bytes, 0);
  if (value.contains("saved_min_bytes")) saved_min_bytes_ = checked.saved_min_bytes;
  object.finish();
}

bool HandWrittenPlanFile::uses_disk() const {
  if (whole_) return whole_->places(TensorPlacement::disk);
  return strategy_.uses_disk() || std::any_of(rules_.begin(), rules_.end(), [](const PlacementRule& rule) {
           return rule.outputs == TensorPlacement::disk || rule.saved == TensorPlacement::disk;
         });
}

bool HandWrittenPlanFile::offloads_states() const {
  return whole_ ? whole_->offloads_states() : strategy_.offloads_states();
}

Plan HandWrittenPlanFile::make_plan(const ProgramFacts& facts) const {
  Plan plan = whole_ ? *whole_ : follow_rules(facts);
  if (whole_)
    for (size_t i = 0; i < plan.placements.size(); ++i)
      within(file_ + ": plan.placements[" + std::to_string(i) + "]: ",
             [&] { check_placement(plan.placements[i], facts); });
  plan.strategy = name_;
  return plan;
}

Plan HandWrittenPlanFile::follow_rules(const ProgramFacts& facts) const {
  Plan plan = within(file_ + ": plan.strategy: ", [&] { return plan::make_plan(strategy_, facts); });
  const OpMemoryAccessGraph graph(facts);
  ActivationPlacementDraft draft(facts, plan);
  for (size_t i = 0; i < rules_.size(); ++i)
    within(file_ + ": plan.rules[" + std::to_string(i) + "].", [&] { apply(rules_[i], facts, graph, draft); });
  plan.placements = draft.placements();
  if (!transfer_.empty()) read_transfer(parse_json(transfer_), "plan.transfer", plan.transfer);
  plan.saved_min_bytes = saved_min_bytes_.value_or(plan.saved_min_bytes);
  return plan;
}

}  // namespace memtune::plan
