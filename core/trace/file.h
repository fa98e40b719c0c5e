// The trace file: the only bridge from the process that measures to reports and the viewer.
//
//   "MTTRACE2" | records; a record is u32 length, u32 check (low half of XXH3 over the payload), payload
//   payload[0] is its type: header (JSON), names (u32 length and bytes each), events (packed Event array), memory
//   (packed MemorySample array), owned (packed OwnedSample array), end (empty; a file without one was cut). Records of
//   an unknown type are passed over.
//
// Little-endian. Records are self-contained, so a file that was cut off is read up to the cut, and says so.
#pragma once

#include <filesystem>

#include "core/trace/event.h"

namespace memtune::trace {

void write_trace(const std::filesystem::path& path, const Trace& trace);  // IoError

struct ReadTrace {
  Trace trace;          // every index of an event or sample is in range
  int64_t cut_at = -1;  // the file's first byte that cannot be trusted, as a record is cut off or damaged; -1: whole
  bool cut() const { return cut_at >= 0; }
};
ReadTrace read_trace(const std::filesystem::path& path);  // IoError; UsageError when it is no trace file

}  // namespace memtune::trace
