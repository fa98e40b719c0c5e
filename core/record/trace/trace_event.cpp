#include "core/record/trace/trace_event.h"

#include <algorithm>

namespace memtune::trace {
namespace {

const char* name_of(TrackRole role) {
  switch (role) {
    case TrackRole::steps: return "steps";
    case TrackRole::phases: return "device phases";
    case TrackRole::blocks: return "device blocks";
    case TrackRole::compute: return "compute";
    case TrackRole::copy_out: return "copy out";
    case TrackRole::copy_in: return "copy in";
    case TrackRole::collectives: return "collectives";
    case TrackRole::disk_write: return "disk write";
    case TrackRole::disk_read: return "disk read";
    case TrackRole::values: return "values";
    case TrackRole::ops: return "host ops";
    case TrackRole::reruns: return "host reruns";
    case TrackRole::host: return "host";
    case TrackRole::stream: return "";
  }
  return "";
}

}  // namespace

std::string to_string(const Track& track) {
  std::string name = name_of(track.role);
  if (track.role == TrackRole::stream || track.stream >= 0) name += name.empty() ? "stream" : " stream";
  if (track.stream >= 0) name += " " + std::to_string(track.stream);
  return name;
}

bool has_ranks(const Trace& trace) {
  return std::ranges::any_of(trace.tracks, [&](const Track& track) { return track.rank != trace.tracks[0].rank; });
}

std::string name_of_track(const Trace& trace, const Track& track) {
  return (has_ranks(trace) ? "rank " + std::to_string(track.rank) + ", " : "") + to_string(track);
}

std::string family(const MemoryOwner& owner) {
  if (owner.kind != MemoryOwnerKind::block) return owner.name;
  std::string text;
  for (const char c : owner.name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || !text.ends_with('*')) text += digit ? '*' : c;
  }
  return text;
}

uint32_t Trace::track(const Track& wanted) {
  const auto found = std::ranges::find(tracks, wanted);
  const auto index = static_cast<uint32_t>(found - tracks.begin());
  if (found == tracks.end()) tracks.push_back(wanted);
  return index;
}

uint32_t Trace::name(const std::string& text) {
  // Readers fill `names` directly, so entries may be missing from the index.
  for (size_t i = name_index.size(); i < names.size(); ++i) name_index.emplace(names[i], static_cast<uint32_t>(i));
  const auto [entry, added] = name_index.try_emplace(text, static_cast<uint32_t>(names.size()));
  if (added) names.push_back(text);
  return entry->second;
}

const TraceEvent* region_at(const Trace& trace, int64_t time_ns, int32_t rank) {
  const TraceEvent* innermost = nullptr;
  const auto span = [](const TraceEvent& event) { return event.end_ns - event.start_ns; };
  for (const TraceEvent& event : trace.events) {
    const bool around = event.start_ns <= time_ns && time_ns <= event.end_ns;
    if (event.kind != EventKind::region || !around || !on_device(trace.tracks[event.track].role)) continue;
    if (rank >= 0 && trace.tracks[event.track].rank != rank) continue;
    if (!innermost || span(event) <= span(*innermost)) innermost = &event;
  }
  return innermost;
}

}  // namespace memtune::trace
