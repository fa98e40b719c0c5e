#include "core/plan/strategy/plan.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_object_reader.h"
#include "core/base/text.h"
#include "core/plan/strategy/plan_reader.h"

namespace memtune::plan {
namespace {

using nlohmann::json;

constexpr int kPlanVersion = 1;

const std::vector<std::string>& place_names() {
  static const std::vector<std::string> names = {"keep", "recompute", "host", "disk"};  // in the order of the enum
  return names;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"value", "block"};  // in the order of the enum
  return names;
}

// `path` names the field in messages.
ActivationOffloadCopyGranularity read_schedule(const std::string& text, const std::string& path) {
  const auto& names = schedule_names();
  const auto name = std::find(names.begin(), names.end(), text);
  if (name == names.end()) throw UsageError(path + ": " + unknown_name("schedule", text, names));
  return static_cast<ActivationOffloadCopyGranularity>(name - names.begin());
}

const std::vector<std::string>& repeats_names() {
  static const std::vector<std::string> names = {"move", "stay", "share"};  // in the order of the enum
  return names;
}

RepeatedSavedTensorOffloadPolicy read_repeats(const std::string& text, const std::string& path) {
  const auto& names = repeats_names();
  const auto name = std::find(names.begin(), names.end(), text);
  if (name == names.end()) throw UsageError(path + ": " + unknown_name("word", text, names));
  return static_cast<RepeatedSavedTensorOffloadPolicy>(name - names.begin());
}

// Fields with default values are left out.
json placement_json(const OneOpActivationPlacements& placement) {
  json outputs = json::array();
  for (TensorPlacement place : placement.outputs) outputs.push_back(to_string(place));
  json json = {
      {"op", placement.op}, {"name", placement.name}, {"outputs", outputs}, {"saved", to_string(placement.saved)}};
  if (placement.saves != TensorPlacement::keep) json["saves"] = to_string(placement.saves);
  return json;
}

json compatibility_json(const ThirdPartyEngineEmulationFlags& compatibility) {
  return {{"learns", compatibility.learns},
          {"prefetch_ops", compatibility.prefetch_ops},
          {"stash_saves", compatibility.stash_saves},
          {"counts_all", compatibility.counts_all},
          {"empties_stash", compatibility.empties_stash},
          {"one_stream", compatibility.one_stream},
          {"host_waits", compatibility.host_waits},
          {"power_of_two", compatibility.power_of_two},
          {"parameter_views", compatibility.parameter_views},
          {"flat_broadcasts", compatibility.flat_broadcasts},
          {"whole_blocks", compatibility.whole_blocks},
          {"repeats", to_string(compatibility.repeats)}};
}

void read_compatibility(const json& json, const std::string& path, ThirdPartyEngineEmulationFlags& compatibility,
                        UnknownFieldPolicy unknown) {
  std::string repeats = to_string(compatibility.repeats);
  JsonObjectReader object(json, path);
  object.read("learns", compatibility.learns);
  object.read("prefetch_ops", compatibility.prefetch_ops, 0, 1);
  object.read("stash_saves", compatibility.stash_saves, 0);
  object.read("counts_all", compatibility.counts_all);
  object.read("empties_stash", compatibility.empties_stash);
  object.read("one_stream", compatibility.one_stream);
  object.read("host_waits", compatibility.host_waits);
  object.read("power_of_two", compatibility.power_of_two);
  object.read("parameter_views", compatibility.parameter_views);
  object.read("flat_broadcasts", compatibility.flat_broadcasts);
  object.read("whole_blocks", compatibility.whole_blocks);
  object.read("repeats", repeats);
  object.finish(unknown);
  compatibility.repeats = read_repeats(repeats, object.path("repeats"));
}

TensorPlacement read_place(const std::string& text, const std::string& path) {
  try {
    return parse_place(text);
  } catch (const UsageError& error) {
    throw UsageError(path + ": " + error.what());
  }
}

OneOpActivationPlacements read_placement(const json& json, const std::string& path, UnknownFieldPolicy unknown) {
  OneOpActivationPlacements placement;
  std::vector<std::string> outputs;
  std::string saved = to_string(placement.saved), saves = to_string(placement.saves);
  JsonObjectReader object(json, path);
  object.require({"op"});
  object.read("op", placement.op, 0);
  object.read("name", placement.name);
  object.read("outputs", outputs);
  object.read("saved", saved);
  object.read("saves", saves);
  object.finish(unknown);
  for (const std::string& output : outputs)
    placement.outputs.push_back(read_place(output, object.path("outputs", placement.outputs.size())));
  placement.saved = read_place(saved, object.path("saved"));
  placement.saves = read_place(saves, object.path("saves"));
  if (placement.saves != TensorPlacement::keep && placement.saves != TensorPlacement::host)
    throw UsageError(object.path("saves") + " must be keep or host");
  return placement;
}

// Refuses two placements of one op, because they could contradict each other.
void check_unique(const std::vector<OneOpActivationPlacements>& placements, const JsonObjectReader& object) {
  std::vector<int> seen;
  for (const OneOpActivationPlacements& placement : placements) seen.push_back(placement.op);
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice != seen.end())
    throw UsageError(object.path("placements") + " has op " + std::to_string(*twice) + " twice; one placement an op");
}

UnitStatePlacement read_states(const json& json, const std::string& path, UnknownFieldPolicy unknown) {
  UnitStatePlacement placement;
  JsonObjectReader object(json, path);
  object.require({"unit"});
  object.read("unit", placement.unit);
  for (const auto& [key, place] : {std::pair("parameters", &placement.parameters), {"moments", &placement.moments}}) {
    std::string text = to_string(*place);
    object.read(key, text);
    *place = read_place(text, object.path(key));
    if (*place != TensorPlacement::keep && *place != TensorPlacement::host)
      throw UsageError(object.path(key) + " must be keep or host");
  }
  object.finish(unknown);
  return placement;
}

void read_fields(const json& json, const std::string& path, TransferSettings& transfer, UnknownFieldPolicy unknown) {
  std::string schedule = to_string(transfer.schedule);
  JsonObjectReader object(json, path);
  object.read("pinned", transfer.pinned);
  object.read("side_stream", transfer.side_stream);
  object.read("min_bytes", transfer.min_bytes, 0, kMaxBytes);
  object.read("stash_bytes", transfer.stash_bytes, 0, kMaxBytes);
  object.read("prefetch_bytes", transfer.prefetch_bytes, 0, kMaxBytes);
  object.read("schedule", schedule);
  object.read("groups_in_flight", transfer.groups_in_flight, 1);
  object.read("prefetch_blocks", transfer.prefetch_blocks, 0);
  if (const auto* compatibility = object.find("habits"))
    read_compatibility(*compatibility, object.path("habits"), transfer.compatibility, unknown);
  object.finish(unknown);
  transfer.schedule = read_schedule(schedule, object.path("schedule"));
}

Plan read_fields(const json& json, UnknownFieldPolicy unknown) {
  Plan plan;
  int version = kPlanVersion;
  JsonObjectReader object(json, "plan");
  object.require({"version", "placements"});
  object.read("version", version, kPlanVersion, kPlanVersion);
  object.read("strategy", plan.strategy);
  object.read("saved_min_bytes", plan.saved_min_bytes, 0, kMaxBytes);
  object.read("nested", plan.nested);
  if (const auto* transfer = object.find("transfer"))
    read_fields(*transfer, object.path("transfer"), plan.transfer, unknown);
  for (const auto& placement : object.array("placements"))
    plan.placements.push_back(read_placement(placement, object.path("placements", plan.placements.size()), unknown));
  for (const auto& states : object.array("states"))
    plan.states.push_back(read_states(states, object.path("states", plan.states.size()), unknown));
  object.finish(unknown);
  check_unique(plan.placements, object);
  return plan;
}

}  // namespace

std::string to_string(TensorPlacement place) { return place_names().at(static_cast<size_t>(place)); }

TensorPlacement parse_place(const std::string& text) {
  const auto& names = place_names();
  const auto name = std::find(names.begin(), names.end(), text);
  if (name == names.end()) throw UsageError(unknown_name("place", text, names));
  return static_cast<TensorPlacement>(name - names.begin());
}

std::string to_string(ActivationOffloadCopyGranularity schedule) {
  return schedule_names().at(static_cast<size_t>(schedule));
}

std::string to_string(RepeatedSavedTensorOffloadPolicy repeats) {
  return repeats_names().at(static_cast<size_t>(repeats));
}

bool Plan::places(TensorPlacement place) const {
  return std::any_of(placements.begin(), placements.end(), [&](const OneOpActivationPlacements& placement) {
    const auto& outputs = placement.outputs;
    return placement.saved == place || placement.saves == place ||
           std::find(outputs.begin(), outputs.end(), place) != outputs.end();
  });
}

bool Plan::keeps_everything() const {
  return !places(TensorPlacement::recompute) && !places(TensorPlacement::host) && !places(TensorPlacement::disk);
}

void read_transfer(const json& json, const std::string& path, TransferSettings& transfer) {
  read_fields(json, path, transfer, UnknownFieldPolicy::refused);
}

void to_json(json& out, const UnitStatePlacement& placement) {
  out = {{"unit", placement.unit},
         {"parameters", to_string(placement.parameters)},
         {"moments", to_string(placement.moments)}};
}

void from_json(const json& json, UnitStatePlacement& placement) {
  placement = read_states(json, "states", UnknownFieldPolicy::passed_over);
}

void to_json(json& out, const Plan& plan) {
  json placements = json::array();
  for (const OneOpActivationPlacements& placement : plan.placements) placements.push_back(placement_json(placement));
  out = {{"version", kPlanVersion},
         {"strategy", plan.strategy},
         {"saved_min_bytes", plan.saved_min_bytes},
         {"nested", plan.nested},
         {"transfer",
          {{"pinned", plan.transfer.pinned},
           {"side_stream", plan.transfer.side_stream},
           {"min_bytes", plan.transfer.min_bytes},
           {"stash_bytes", plan.transfer.stash_bytes},
           {"prefetch_bytes", plan.transfer.prefetch_bytes},
           {"schedule", to_string(plan.transfer.schedule)},
           {"groups_in_flight", plan.transfer.groups_in_flight},
           {"prefetch_blocks", plan.transfer.prefetch_blocks}}},
         {"placements", placements}};
  if (plan.transfer.compatibility != ThirdPartyEngineEmulationFlags{})
    out["transfer"]["habits"] = compatibility_json(plan.transfer.compatibility);
  if (plan.offloads_states()) out["states"] = plan.states;
}

void from_json(const json& json, Plan& plan) { plan = read_fields(json, UnknownFieldPolicy::passed_over); }

Plan read_plan_strictly(const json& json) { return read_fields(json, UnknownFieldPolicy::refused); }

}  // namespace memtune::plan
