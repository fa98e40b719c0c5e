#include "core/trace/file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::trace {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the trace file is written as the memory holds it");

constexpr std::string_view kMagic = "MTTRACE2";
constexpr size_t kRecordBytes = size_t{1} << 20;  // a record is closed once it holds that many

enum class Record : uint8_t { header = 1, names, events, memory, end, owned };

uint32_t check_of(std::string_view payload) {
  return static_cast<uint32_t>(XXH3_64bits(payload.data(), payload.size()));
}

template <typename Value>
void put(std::string& bytes, Value value) {
  static_assert(std::is_trivially_copyable_v<Value> && std::has_unique_object_representations_v<Value>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Collects records of one type; a full one is closed and the next begun.
class RecordWriter {
 public:
  RecordWriter(std::string& file, Record type) : file_(file), empty_(1, static_cast<char>(type)), payload_(empty_) {}
  std::string& payload() { return payload_; }
  void item_done() {
    if (payload_.size() >= kRecordBytes) close();
  }
  void close() {
    put(file_, static_cast<uint32_t>(payload_.size()));
    put(file_, check_of(payload_));
    file_ += payload_;
    payload_ = empty_;
  }

 private:
  std::string& file_;
  const std::string empty_;
  std::string payload_;
};

void write_header(std::string& file, const Trace& trace) {
  Json tracks = Json::array();
  for (const Track& track : trace.tracks) tracks.push_back({{"name", track.name}, {"device", track.device}});
  Json values = Json::array();
  for (const Value& value : trace.values)
    values.push_back({{"name", value.name},
                      {"region", value.region},
                      {"placement", value.placement},
                      {"reason", value.reason},
                      {"bytes", value.bytes}});
  const Json header = {
      {"strategy", trace.strategy},        {"device", trace.device}, {"tracks", std::move(tracks)},
      {"values", std::move(values)},       {"owners", trace.owners}, {"budget_bytes", trace.budget_bytes},
      {"lost_records", trace.lost_records}};
  RecordWriter record(file, Record::header);
  record.payload() += header.dump(-1, ' ', false, Json::error_handler_t::replace);
  record.close();
}

void put_item(std::string& bytes, const std::string& name) {
  put(bytes, static_cast<uint32_t>(name.size()));
  bytes += name;
}

void put_item(std::string& bytes, const Event& event) {
  put(bytes, event.kind);
  put(bytes, event.track);
  put(bytes, event.name);
  put(bytes, event.start_ns);
  put(bytes, event.end_ns);
  put(bytes, event.bytes);
  put(bytes, event.correlation);
  put(bytes, event.value);
}

void put_item(std::string& bytes, const MemorySample& sample) {
  put(bytes, sample.time_ns);
  put(bytes, sample.allocated_bytes);
}

void put_item(std::string& bytes, const OwnedSample& sample) {
  put(bytes, sample.time_ns);
  put(bytes, sample.owner);
  put(bytes, sample.bytes);
}

template <typename Item>
void write_items(std::string& file, Record type, const std::vector<Item>& items) {
  RecordWriter record(file, type);
  for (const Item& item : items) {
    put_item(record.payload(), item);
    record.item_done();
  }
  record.close();
}

// Thrown and caught in this file alone: the tail from here on cannot be trusted.
struct Damaged {};

class Cursor {
 public:
  explicit Cursor(std::string_view rest) : rest_(rest) {}
  bool done() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }
  std::string_view take(size_t size) {
    if (size > rest_.size()) throw Damaged{};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <typename Value>
  void get(Value& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }

 private:
  std::string_view rest_;
};

void get_item(Cursor& payload, const Trace&, std::string& name) {
  uint32_t size = 0;
  payload.get(size);
  name = payload.take(size);
}

// Differences and sums of a few times stay numbers.
void check_times(int64_t start_ns, int64_t end_ns) {
  constexpr int64_t kFar = int64_t{1} << 61;
  if (std::min(start_ns, end_ns) < -kFar || std::max(start_ns, end_ns) > kFar) throw Damaged{};
}

void get_item(Cursor& payload, const Trace& trace, Event& event) {
  uint8_t kind = 0;
  payload.get(kind);
  payload.get(event.track);
  payload.get(event.name);
  payload.get(event.start_ns);
  payload.get(event.end_ns);
  payload.get(event.bytes);
  payload.get(event.correlation);
  payload.get(event.value);
  event.kind = static_cast<Kind>(kind);
  check_times(event.start_ns, event.end_ns);
  // Whoever reads a trace may index with these unchecked.
  const bool known = kind <= static_cast<uint8_t>(Kind::mark);
  if (!known || event.track >= trace.tracks.size() || event.name >= trace.names.size() ||
      event.value > trace.values.size())
    throw Damaged{};
}

void get_item(Cursor& payload, const Trace&, MemorySample& sample) {
  payload.get(sample.time_ns);
  payload.get(sample.allocated_bytes);
  check_times(sample.time_ns, sample.time_ns);
}

void get_item(Cursor& payload, const Trace& trace, OwnedSample& sample) {
  payload.get(sample.time_ns);
  payload.get(sample.owner);
  payload.get(sample.bytes);
  check_times(sample.time_ns, sample.time_ns);
  if (sample.owner >= trace.owners.size()) throw Damaged{};
}

template <typename Item>
void read_items(Cursor& payload, const Trace& trace, std::vector<Item>& items) {
  while (!payload.done()) {
    Item item;
    get_item(payload, trace, item);
    items.push_back(std::move(item));
  }
}

void read_header(std::string_view payload, Trace& trace) try {
  // A second one would change what items that were checked refer to.
  if (!trace.tracks.empty() || !trace.events.empty() || !trace.owned.empty()) throw Damaged{};
  const Json header = Json::parse(payload);
  header.at("strategy").get_to(trace.strategy);
  header.at("device").get_to(trace.device);
  header.at("lost_records").get_to(trace.lost_records);
  for (const Json& track : header.at("tracks"))
    trace.tracks.push_back({track.at("name").get<std::string>(), track.at("device").get<bool>()});
  for (const Json& value : header.at("values"))
    trace.values.push_back({value.at("name").get<std::string>(), value.at("region").get<std::string>(),
                            value.at("placement").get<std::string>(), value.at("reason").get<std::string>(),
                            value.at("bytes").get<int64_t>()});
  header.at("owners").get_to(trace.owners);
  header.at("budget_bytes").get_to(trace.budget_bytes);
} catch (const Json::exception&) {
  throw Damaged{};
}

std::string_view checked_payload(Cursor& file) {
  uint32_t size = 0, check = 0;
  file.get(size);
  file.get(check);
  const std::string_view payload = file.take(size);
  if (payload.empty() || check_of(payload) != check) throw Damaged{};
  return payload;
}

// Answers whether it was the end. Types of later versions are passed over.
bool read_record(std::string_view payload, Trace& trace) {
  const auto type = static_cast<Record>(payload[0]);
  payload.remove_prefix(1);
  Cursor items(payload);
  switch (type) {
    case Record::header: read_header(payload, trace); break;
    case Record::names: read_items(items, trace, trace.names); break;
    case Record::events: read_items(items, trace, trace.events); break;
    case Record::memory: read_items(items, trace, trace.memory); break;
    case Record::owned: read_items(items, trace, trace.owned); break;
    case Record::end: return true;
  }
  return false;
}

}  // namespace

void write_trace(const std::filesystem::path& path, const Trace& trace) {
  std::string file(kMagic);
  write_header(file, trace);
  write_items(file, Record::names, trace.names);
  write_items(file, Record::events, trace.events);
  write_items(file, Record::memory, trace.memory);
  write_items(file, Record::owned, trace.owned);
  RecordWriter(file, Record::end).close();
  write_file(path, file);
}

ReadTrace read_trace(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  if (!content.starts_with(kMagic)) throw UsageError("'" + path.string() + "' is not a trace file of memtune");
  ReadTrace read;
  Cursor file(std::string_view(content).substr(kMagic.size()));
  const auto here = [&] { return static_cast<int64_t>(content.size() - file.left()); };
  int64_t record_at = here();
  try {
    while (!read_record(checked_payload(file), read.trace)) record_at = here();
    if (!file.done()) read.cut_at = here();
  } catch (const Damaged&) {
    read.cut_at = record_at;
  }
  return read;
}

}  // namespace memtune::trace
