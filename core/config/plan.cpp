#include "core/config/plan.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/json_object.h"

namespace memtune::config {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

const std::vector<std::string>& place_names() {
  static const std::vector<std::string> names = {"keep", "recompute", "host"};  // in the order of the enum
  return names;
}

json placement_json(const OpPlacement& placement) {
  json outputs = json::array();
  for (Place place : placement.outputs) outputs.push_back(to_string(place));
  return {{"op", placement.op}, {"name", placement.name}, {"outputs", outputs}, {"saved", to_string(placement.saved)}};
}

Place read_place(const std::string& text, const std::string& path) {
  try {
    return parse_place(text);
  } catch (const UsageError& error) {
    throw UsageError(path + ": " + error.what());
  }
}

OpPlacement read_placement(const json& json, const std::string& path) {
  OpPlacement placement;
  std::vector<std::string> outputs;
  std::string saved = to_string(placement.saved);
  JsonObject object(json, path);
  object.require({"op"});
  object.read("op", placement.op, 0);
  object.read("name", placement.name);
  object.read("outputs", outputs);
  object.read("saved", saved);
  object.finish();
  for (const std::string& output : outputs)
    placement.outputs.push_back(read_place(output, object.path("outputs", placement.outputs.size())));
  placement.saved = read_place(saved, object.path("saved"));
  return placement;
}

TransferSettings read_transfer(const json& json, const std::string& path) {
  TransferSettings transfer;
  JsonObject object(json, path);
  object.read("side_stream", transfer.side_stream);
  object.read("min_bytes", transfer.min_bytes, 0);
  object.read("stash_bytes", transfer.stash_bytes, 0);
  object.read("prefetch_bytes", transfer.prefetch_bytes, 0);
  object.finish();
  return transfer;
}

// Two placements of one op would leave open which one counts.
void check_unique(const std::vector<OpPlacement>& placements, const JsonObject& object) {
  std::vector<int> seen;
  for (const OpPlacement& placement : placements) seen.push_back(placement.op);
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice != seen.end())
    throw UsageError(object.path("placements") + " has op " + std::to_string(*twice) + " twice; one placement an op");
}

}  // namespace

std::string to_string(Place place) { return place_names().at(static_cast<size_t>(place)); }

Place parse_place(const std::string& text) {
  const auto& names = place_names();
  const auto name = std::find(names.begin(), names.end(), text);
  if (name == names.end()) throw UsageError(unknown_name("place", text, names));
  return static_cast<Place>(name - names.begin());
}

bool Plan::keeps_everything() const {
  const auto keeps = [](Place place) { return place == Place::keep; };
  return std::all_of(placements.begin(), placements.end(), [&](const OpPlacement& placement) {
    return keeps(placement.saved) && std::all_of(placement.outputs.begin(), placement.outputs.end(), keeps);
  });
}

void to_json(json& out, const Plan& plan) {
  json placements = json::array();
  for (const OpPlacement& placement : plan.placements) placements.push_back(placement_json(placement));
  out = {{"version", kVersion},
         {"strategy", plan.strategy},
         {"saved_min_bytes", plan.saved_min_bytes},
         {"transfer",
          {{"side_stream", plan.transfer.side_stream},
           {"min_bytes", plan.transfer.min_bytes},
           {"stash_bytes", plan.transfer.stash_bytes},
           {"prefetch_bytes", plan.transfer.prefetch_bytes}}},
         {"placements", placements}};
}

void from_json(const json& json, Plan& plan) {
  plan = {};
  int version = kVersion;
  JsonObject object(json, "plan");
  object.require({"version", "placements"});
  object.read("version", version, kVersion, kVersion);
  object.read("strategy", plan.strategy);
  object.read("saved_min_bytes", plan.saved_min_bytes, 0);
  if (const auto* transfer = object.find("transfer")) plan.transfer = read_transfer(*transfer, object.path("transfer"));
  for (const auto& placement : object.array("placements"))
    plan.placements.push_back(read_placement(placement, object.path("placements", plan.placements.size())));
  object.finish();
  check_unique(plan.placements, object);
}

}  // namespace memtune::config
