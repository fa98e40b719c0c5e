#include "core/record/trace/ranks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/record/trace/bounds.h"

namespace memtune::trace {

void add_rank(const Trace& from, int32_t rank, int64_t shift_ns, Trace& to, int64_t since_ns) {
  int64_t lost = from.lost_records;
  std::vector<uint32_t> tracks, names;
  for (Track track : from.tracks) {
    track.rank = rank;
    tracks.push_back(to.track(track));
  }
  for (const std::string& name : from.names) names.push_back(to.name(name));
  for (TraceEvent event : from.events) {
    if (event.end_ns <= since_ns) continue;
    if (!is_trace_time(event.start_ns + shift_ns) || !is_trace_time(event.end_ns + shift_ns)) {
      ++lost;
      continue;
    }
    event.track = tracks[event.track];
    event.name = names[event.name];
    event.start_ns += shift_ns;
    event.end_ns += shift_ns;
    event.value = {};
    to.events.push_back(event);
  }
  to.lost_records = std::min(to.lost_records + lost, kMaxCount);
}

}  // namespace memtune::trace
