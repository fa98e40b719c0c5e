#include "core/trace/ranks.h"

#include <string>
#include <vector>

namespace memtune::trace {

void add_rank(const Trace& from, int32_t rank, int64_t shift_ns, Trace& to, int64_t since_ns) {
  std::vector<uint32_t> tracks, names;
  for (Track track : from.tracks) {
    track.rank = rank;
    tracks.push_back(to.track(track));
  }
  for (const std::string& name : from.names) names.push_back(to.name(name));
  for (Event event : from.events) {
    if (event.end_ns <= since_ns) continue;
    event.track = tracks[event.track];
    event.name = names[event.name];
    event.start_ns += shift_ns;
    event.end_ns += shift_ns;
    event.value = {};
    to.events.push_back(event);
  }
  to.lost_records += from.lost_records;
}

}  // namespace memtune::trace
