#include "core/sweep/ranks/rank_traces.h"

#include <system_error>

#include "core/base/error.h"
#include "core/record/trace/file.h"
#include "core/record/trace/ranks.h"

namespace memtune::sweep {
namespace {

namespace fs = std::filesystem;

bool add(const fs::path& file, int32_t rank, trace::Trace& to) try {
  const trace::Trace own = trace::read_trace(file).trace;
  if (own.start_ns == 0 || to.start_ns == 0) return false;
  trace::add_rank(own, rank, own.start_ns - to.start_ns, to);
  return true;
} catch (const Error&) {
  return false;
}

}  // namespace

void merge_rank_traces(const std::vector<fs::path>& traces, FileSystem& files) try {
  std::error_code absent;
  if (!fs::exists(traces.front(), absent)) return;
  trace::Trace merged = trace::read_trace(traces.front()).trace;
  bool several = false;
  for (size_t rank = 1; rank < traces.size(); ++rank) {
    if (!fs::exists(traces[rank], absent)) continue;
    several |= add(traces[rank], static_cast<int32_t>(rank), merged);
    fs::remove(traces[rank], absent);
  }
  if (!several) return;
  merged.measured_rank = 0;
  trace::write_trace(traces.front(), merged, files);
} catch (const Error&) {
  // The trace of rank 0 stays unchanged.
}

}  // namespace memtune::sweep
