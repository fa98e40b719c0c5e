// The trace file: the only bridge from the process that measures to reports and the viewer. docs/formats.md has the
// layout of every record, and when the version has to change.
//
//   "MTTRACE3" | records; a record is u32 length, u32 check (low half of XXH3 over the payload), payload
//   payload[0] is its type: header (JSON, with the version), names (u32 length and bytes each), events, memory and
//   owned (packed items), end (empty; a file without one was cut). Records of an unknown type are passed over.
//
// Little-endian. Records are self-contained, so a file that was cut off is read up to the cut, and says so.
#pragma once

#include <filesystem>

#include "core/base/file_system.h"
#include "core/trace/event.h"

namespace memtune::trace {

void write_trace(const std::filesystem::path& path, const Trace& trace,
                 FileSystem& system = system_files());  // IoError

struct ReadTrace {
  Trace trace;          // every index of an event or sample is in range
  int64_t cut_at = -1;  // the file's first byte that cannot be trusted, as a record is cut off or damaged; -1: whole
  bool cut() const { return cut_at >= 0; }
};
// Reads versions 2 to 4. IoError; UsageError when it is no trace file, or one of another version.
ReadTrace read_trace(const std::filesystem::path& path);

}  // namespace memtune::trace
