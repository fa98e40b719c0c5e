#include "core/record/trace/version2.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json.h"

namespace memtune::trace {
namespace {

using Json = nlohmann::json;

struct NamedRole {
  std::string_view begins;
  TrackRole role;
};
constexpr std::array<NamedRole, 5> kDeviceTracks = {{{"device phases", TrackRole::phases},
                                                     {"device blocks", TrackRole::blocks},
                                                     {"compute", TrackRole::compute},
                                                     {"copy out", TrackRole::copy_out},
                                                     {"copy in", TrackRole::copy_in}}};
constexpr std::array<NamedRole, 6> kHostTracks = {{{"host steps", TrackRole::steps},
                                                   {"host ops", TrackRole::ops},
                                                   {"host reruns", TrackRole::reruns},
                                                   {"disk write", TrackRole::disk_write},
                                                   {"disk read", TrackRole::disk_read},
                                                   {"values", TrackRole::values}}};

template <size_t N>
TrackRole role_of(const std::array<NamedRole, N>& known, std::string_view name, TrackRole otherwise) {
  for (const NamedRole& track : known)
    if (name.starts_with(track.begins)) return track.role;
  return otherwise;
}

// "copy out stream 20" -> 20
int32_t stream_of(const std::string& name) {
  const std::string digits = name.substr(name.find_last_not_of("0123456789") + 1);  // npos + 1 is 0
  return digits.empty() || digits.size() > 9 ? -1 : std::stoi(digits);
}

Track track_of(const std::string& name, bool device) {
  return {device ? role_of(kDeviceTracks, name, TrackRole::stream) : role_of(kHostTracks, name, TrackRole::host),
          device ? stream_of(name) : -1, 0};
}

// Fixed owners have known names. All others are blocks, in the model's order.
std::vector<MemoryOwner> owners_of(const std::vector<std::string>& names) {
  static const std::map<std::string, OwnerKind> kFixed = {
      {"parameters", OwnerKind::parameters},        {"optimizer", OwnerKind::optimizer},
      {"inputs and buffers", OwnerKind::inputs},    {"gradients", OwnerKind::gradients},
      {"copied back ahead", OwnerKind::prefetched}, {"outside of blocks", OwnerKind::outside}};
  std::vector<MemoryOwner> owners;
  int32_t block = 0;
  for (const std::string& name : names) {
    const auto fixed = kFixed.find(name);
    if (fixed != kFixed.end())
      owners.push_back({fixed->second, name, kNoBlock});
    else
      owners.push_back({OwnerKind::block, name, block++});
  }
  return owners;
}

std::map<std::string, int32_t> blocks_of(const Trace& trace) {
  std::map<std::string, int32_t> blocks;
  for (const MemoryOwner& owner : trace.owners)
    if (owner.kind == OwnerKind::block) blocks.emplace(owner.name, owner.block);
  return blocks;
}

int32_t block_of(const std::map<std::string, int32_t>& blocks, const std::string& name) {
  const auto found = blocks.find(name);
  return found == blocks.end() ? kNoBlock : found->second;
}

// Parses names such as "layers.3 backward".
TraceRegion region_of(const std::map<std::string, int32_t>& blocks, std::string name) {
  if (name == "step") return {RegionKind::step, Pass::forward, kNoBlock};
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::optimizer})
    if (name == to_string(pass)) return TraceRegion::phase(pass);
  TraceRegion region;
  for (const Pass pass : {Pass::backward, Pass::recompute}) {
    const std::string ending = " " + to_string(pass);
    if (!name.ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    region.pass = pass;
    break;
  }
  region.block = block_of(blocks, name);
  if (region.block != kNoBlock) region.kind = RegionKind::block;
  if (name == "before the blocks") region.kind = RegionKind::before_blocks;
  if (name == "head") region.kind = RegionKind::head;
  return region;
}

// Converts reasons to the wording of version 3.
std::string reworded(std::string reason) {
  constexpr std::string_view kOld = "dear to make again", kNew = "slow to make again";
  if (reason.ends_with(kOld)) reason.replace(reason.size() - kOld.size(), kOld.size(), kNew);
  return reason;
}

}  // namespace

void read_header_2(const Json& header, Trace& trace) {
  for (const Json& track : header.at("tracks"))
    trace.tracks.push_back(track_of(track.at("name").get<std::string>(), track.at("device").get<bool>()));
  trace.owners = owners_of(header.at("owners").get<std::vector<std::string>>());
  const std::map<std::string, int32_t> blocks = blocks_of(trace);
  for (const Json& json : header.at("values")) {
    TracedValue value{json.at("name"),         json.at("region"), json.at("placement"), reworded(json.at("reason")),
                      whole_at(json, "bytes"), kNoBlock};
    value.block = block_of(blocks, value.region);
    trace.values.push_back(std::move(value));
  }
}

void derive_types(Trace& trace) {
  const std::map<std::string, int32_t> blocks = blocks_of(trace);
  std::vector<TraceRegion> regions;
  for (const std::string& name : trace.names) regions.push_back(region_of(blocks, name));
  for (TraceEvent& event : trace.events) {
    if (event.kind == EventKind::region) event.region = regions[event.name];
    if (event.kind == EventKind::copy_out || event.kind == EventKind::copy_in)
      event.pageable = trace.names[event.name].ends_with(", pageable");
  }
}

}  // namespace memtune::trace
