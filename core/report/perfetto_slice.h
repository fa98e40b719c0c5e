// What one event of a trace is called in a Chrome trace: names, categories and arguments that PyTorch's profiler writes
// too, so that tools made for its traces (Holistic Trace Analysis) read memtune's.
#pragma once

#include <cstdint>
#include <string>

#include "core/trace/event.h"

namespace memtune::report {

// JSON, with bytes that are no UTF-8 replaced.
std::string quoted(const std::string& text);

// "kernel", "gpu_memcpy", "gpu_memset", "cpu_op", "user_annotation" and, for what memtune alone has, "value", "disk".
const char* slice_category(const trace::Event& event);

// "Memcpy DtoH (Device -> Pinned)" for a copy; everything else has its own name.
std::string slice_name(const trace::Trace& trace, const trace::Event& event);

// The members of "args": device, stream, correlation, bytes, rate, and the value that the event is about.
std::string slice_arguments(const trace::Trace& trace, const trace::Event& event, int64_t stream);

}  // namespace memtune::report
