// The trace file: written by the measuring process, read by reports and the viewer. docs/reference/files.md describes
// the layout of every record and when the version changes.
//
//   "MTTRACE3" | records; a record is u32 length, u32 check (low half of XXH3 over the payload), payload
//   payload[0] is its type: header (JSON, with the version), names (u32 length and bytes each), events, memory and
//   owned (packed items), end (empty; a file without one was cut). Records of an unknown type are ignored.
//
// Little-endian. Records are self-contained, so a truncated file is read up to the cut, which TraceReadResult::cut_at
// reports.
#pragma once

#include <filesystem>

#include "core/base/file_system.h"
#include "core/record/trace/trace_event.h"

namespace memtune::trace {

void write_trace(const std::filesystem::path& path, const Trace& trace,
                 FileSystem& system = system_files());  // throws IoError

struct TraceReadResult {
  Trace trace;          // all indices in events and samples are in range
  int64_t cut_at = -1;  // offset of the first damaged or truncated record; -1: the file is complete
  bool cut() const { return cut_at >= 0; }
};
// Reads versions 3 and 4. Throws IoError, and UsageError for another version or another kind of file.
TraceReadResult read_trace(const std::filesystem::path& path);

}  // namespace memtune::trace
