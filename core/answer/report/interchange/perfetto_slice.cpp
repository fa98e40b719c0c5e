#include "core/answer/report/interchange/perfetto_slice.h"

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

bool is_copy(trace::EventKind kind) {
  return kind == trace::EventKind::copy_out || kind == trace::EventKind::copy_in ||
         kind == trace::EventKind::copy_device;
}

std::string copy_name(const trace::TraceEvent& event) {
  const std::string host = event.pageable ? "Pageable" : "Pinned";
  if (event.kind == trace::EventKind::copy_out) return "Memcpy DtoH (Device -> " + host + ")";
  if (event.kind == trace::EventKind::copy_in) return "Memcpy HtoD (" + host + " -> Device)";
  return "Memcpy DtoD (Device -> Device)";
}

bool on_stream(trace::EventKind kind) {
  return kind == trace::EventKind::kernel || kind == trace::EventKind::collective || kind == trace::EventKind::memset ||
         is_copy(kind);
}

class Arguments {
 public:
  void put(const char* name, const std::string& json) {
    text_ += (text_.empty() ? "\"" : ",\"") + std::string(name) + "\":" + json;
  }
  void put(const char* name, int64_t value) { put(name, std::to_string(value)); }
  std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

void put_value(const trace::TracedActivationPlacement& value, Arguments& arguments) {
  arguments.put("value", quoted(value.name));
  arguments.put("placement", quoted(value.placement));
  if (!value.region.empty()) arguments.put("region", quoted(value.region));
  if (!value.reason.empty()) arguments.put("reason", quoted(value.reason));
  arguments.put("value bytes", value.bytes);
}

}  // namespace

std::string quoted(const std::string& text) { return print_json(text); }

const char* slice_category(const trace::TraceEvent& event) {
  switch (event.kind) {
    case trace::EventKind::kernel:
    case trace::EventKind::collective: return "kernel";
    case trace::EventKind::copy_out:
    case trace::EventKind::copy_in:
    case trace::EventKind::copy_device: return "gpu_memcpy";
    case trace::EventKind::memset: return "gpu_memset";
    case trace::EventKind::op: return "cpu_op";
    case trace::EventKind::wait:
    case trace::EventKind::region: break;
    case trace::EventKind::disk_write:
    case trace::EventKind::disk_read: return "disk";
    case trace::EventKind::save:
    case trace::EventKind::use: return "value";
  }
  return "user_annotation";
}

std::string slice_name(const trace::Trace& trace, const trace::TraceEvent& event) {
  const std::string name = event.name < trace.names.size() ? trace.names[event.name] : to_string(event.kind);
  if (is_copy(event.kind)) return copy_name(event);
  if (event.kind == trace::EventKind::memset) return "Memset (Device)";
  if (event.kind == trace::EventKind::save || event.kind == trace::EventKind::use)
    return to_string(event.kind) + " " + name;
  return name;
}

std::string slice_arguments(const trace::Trace& trace, const trace::TraceEvent& event, int64_t stream) {
  Arguments arguments;
  if (on_stream(event.kind)) {
    arguments.put("device", 0);
    arguments.put("stream", stream);
  }
  if (event.correlation) arguments.put("correlation", std::to_string(event.correlation));
  if (event.bytes > 0) {
    arguments.put("bytes", event.bytes);
    const int64_t ns = event.end_ns - event.start_ns;  // bytes per nanosecond are GB/s
    if (ns > 0)
      arguments.put("memory bandwidth (GB/s)", fixed(static_cast<double>(event.bytes) / static_cast<double>(ns), 3));
  }
  if (event.value.index() < trace.values.size()) put_value(trace.value(event.value), arguments);
  return std::move(arguments).take();
}

}  // namespace memtune::report
