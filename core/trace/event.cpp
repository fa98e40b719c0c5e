#include "core/trace/event.h"

#include <algorithm>

namespace memtune::trace {

std::string to_string(Kind kind) {
  switch (kind) {
    case Kind::kernel: return "kernel";
    case Kind::copy_out: return "copy_out";
    case Kind::copy_in: return "copy_in";
    case Kind::copy_device: return "copy_device";
    case Kind::memset: return "memset";
    case Kind::wait: return "wait";
    case Kind::op: return "op";
    case Kind::region: return "region";
    case Kind::disk_write: return "disk_write";
    case Kind::disk_read: return "disk_read";
    case Kind::save: return "save";
    case Kind::use: return "use";
    case Kind::mark: return "mark";
  }
  return "?";
}

uint32_t Trace::track(const std::string& name, bool device) {
  const auto found = std::find_if(tracks.begin(), tracks.end(),
                                  [&](const Track& track) { return track.name == name && track.device == device; });
  const auto index = static_cast<uint32_t>(found - tracks.begin());
  if (found == tracks.end()) tracks.push_back({name, device});
  return index;
}

uint32_t Trace::name(const std::string& text) {
  // Readers fill `names` directly: catch up with what the index has not seen.
  for (size_t i = name_index.size(); i < names.size(); ++i) name_index.emplace(names[i], static_cast<uint32_t>(i));
  const auto [entry, added] = name_index.try_emplace(text, static_cast<uint32_t>(names.size()));
  if (added) names.push_back(text);
  return entry->second;
}

}  // namespace memtune::trace
