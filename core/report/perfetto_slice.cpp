#include "core/report/perfetto_slice.h"

#include <nlohmann/json.hpp>

#include "core/base/layout.h"

namespace memtune::report {
namespace {

bool is_copy(trace::Kind kind) {
  return kind == trace::Kind::copy_out || kind == trace::Kind::copy_in || kind == trace::Kind::copy_device;
}

std::string copy_name(trace::Kind kind, const std::string& recorded) {
  const std::string host = recorded.find("pageable") == std::string::npos ? "Pinned" : "Pageable";
  if (kind == trace::Kind::copy_out) return "Memcpy DtoH (Device -> " + host + ")";
  if (kind == trace::Kind::copy_in) return "Memcpy HtoD (" + host + " -> Device)";
  return "Memcpy DtoD (Device -> Device)";
}

bool on_stream(trace::Kind kind) { return kind == trace::Kind::kernel || kind == trace::Kind::memset || is_copy(kind); }

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

void put_value(const trace::Value& value, Arguments& arguments) {
  arguments.put("value", quoted(value.name));
  arguments.put("placement", quoted(value.placement));
  if (!value.region.empty()) arguments.put("region", quoted(value.region));
  if (!value.reason.empty()) arguments.put("reason", quoted(value.reason));
  arguments.put("value bytes", value.bytes);
}

}  // namespace

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* slice_category(const trace::Event& event) {
  switch (event.kind) {
    case trace::Kind::kernel: return "kernel";
    case trace::Kind::copy_out:
    case trace::Kind::copy_in:
    case trace::Kind::copy_device: return "gpu_memcpy";
    case trace::Kind::memset: return "gpu_memset";
    case trace::Kind::op: return "cpu_op";
    case trace::Kind::wait:
    case trace::Kind::region: break;
    case trace::Kind::disk_write:
    case trace::Kind::disk_read: return "disk";
    case trace::Kind::save:
    case trace::Kind::use: return "value";
    case trace::Kind::mark: return "mark";
  }
  return "user_annotation";
}

std::string slice_name(const trace::Trace& trace, const trace::Event& event) {
  const std::string name = event.name < trace.names.size() ? trace.names[event.name] : to_string(event.kind);
  if (is_copy(event.kind)) return copy_name(event.kind, name);
  if (event.kind == trace::Kind::memset) return "Memset (Device)";
  if (event.kind == trace::Kind::save || event.kind == trace::Kind::use) return to_string(event.kind) + " " + name;
  return name;
}

int64_t stream_of(const std::string& track) {
  const size_t start = track.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  const std::string digits = track.substr(start);
  return digits.empty() || digits.size() > 9 ? -1 : std::stoll(digits);
}

std::string slice_arguments(const trace::Trace& trace, const trace::Event& event, int64_t stream) {
  Arguments arguments;
  if (on_stream(event.kind)) {
    arguments.put("device", 0);
    arguments.put("stream", stream);
  }
  if (event.correlation) arguments.put("correlation", std::to_string(event.correlation));
  if (event.bytes > 0) {
    arguments.put("bytes", event.bytes);
    const int64_t ns = event.end_ns - event.start_ns;  // bytes a nanosecond are GB a second
    if (ns > 0)
      arguments.put("memory bandwidth (GB/s)", fixed(static_cast<double>(event.bytes) / static_cast<double>(ns), 3));
  }
  if (event.value > 0 && event.value <= trace.values.size()) put_value(trace.values[event.value - 1], arguments);
  return std::move(arguments).take();
}

}  // namespace memtune::report
