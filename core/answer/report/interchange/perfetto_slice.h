// Names, categories and arguments of trace events in Chrome traces. They match PyTorch's profiler, so that its tools
// (Holistic Trace Analysis) read memtune's traces.
#pragma once

#include <cstdint>
#include <string>

#include "core/record/trace/trace_event.h"

namespace memtune::report {

// A JSON string; invalid UTF-8 is replaced.
std::string quoted(const std::string& text);

// "kernel", "gpu_memcpy", "gpu_memset", "cpu_op", "user_annotation"; "value" and "disk" exist only in memtune.
const char* slice_category(const trace::TraceEvent& event);

// "Memcpy DtoH (Device -> Pinned)" for a copy; the event's own name otherwise.
std::string slice_name(const trace::Trace& trace, const trace::TraceEvent& event);

// The members of "args": device, stream, correlation, bytes, rate, and the saved tensor of the event.
std::string slice_arguments(const trace::Trace& trace, const trace::TraceEvent& event, int64_t stream);

}  // namespace memtune::report
