#include "core/record/trace/file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "core/base/confined_file_system.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/record/trace/bounds.h"

namespace memtune::trace {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the trace file is written as the memory holds it");

constexpr std::string_view kMagic = "MTTRACE";  // followed by the version up to 3; later versions are in the header
constexpr int kVersion = 4;
constexpr size_t kRecordBytes = size_t{1} << 20;  // limit at which a record is closed

constexpr int64_t kMaxTraceBytes = int64_t{8} << 30;

enum class Record : uint8_t { header = 1, names, events, memory, end, owned };

uint32_t check_of(std::string_view payload) {
  return static_cast<uint32_t>(XXH3_64bits(payload.data(), payload.size()));
}

template <typename Value>
void put(std::string& bytes, Value value) {
  static_assert(std::is_trivially_copyable_v<Value> && std::has_unique_object_representations_v<Value>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Collects records of one type. A full record is closed and a new one started.
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
  Json tracks = Json::array(), values = Json::array(), owners = Json::array();
  for (const Track& track : trace.tracks)
    tracks.push_back({{"role", to_string(track.role)}, {"stream", track.stream}, {"rank", track.rank}});
  for (const TracedActivationPlacement& value : trace.values)
    values.push_back({{"name", value.name},
                      {"region", value.region},
                      {"placement", value.placement},
                      {"reason", value.reason},
                      {"bytes", value.bytes},
                      {"block", value.block}});
  for (const MemoryOwner& owner : trace.owners)
    owners.push_back({{"kind", to_string(owner.kind)}, {"name", owner.name}, {"block", owner.block}});
  const Json header = {{"version", kVersion},
                       {"origin", trace.origin},
                       {"strategy", trace.strategy},
                       {"device", trace.device},
                       {"tracks", std::move(tracks)},
                       {"values", std::move(values)},
                       {"owners", std::move(owners)},
                       {"budget_bytes", trace.budget_bytes},
                       {"lost_records", trace.lost_records},
                       {"start_ns", trace.start_ns},
                       {"measured_rank", trace.measured_rank}};
  RecordWriter record(file, Record::header);
  record.payload() += header.dump(-1, ' ', false, Json::error_handler_t::replace);
  record.close();
}

void put_item(std::string& bytes, const std::string& name) {
  put(bytes, static_cast<uint32_t>(name.size()));
  bytes += name;
}

void put_item(std::string& bytes, const TraceEvent& event) {
  put(bytes, event.kind);
  put(bytes, event.track);
  put(bytes, event.name);
  put(bytes, event.start_ns);
  put(bytes, event.end_ns);
  put(bytes, event.bytes);
  put(bytes, event.correlation);
  put(bytes, event.value);
  put(bytes, event.region.kind);
  put(bytes, event.region.pass);
  put(bytes, event.region.block);
  put(bytes, static_cast<uint8_t>(event.pageable ? 1 : 0));
}

void put_item(std::string& bytes, const AllocatedBytesSample& sample) {
  put(bytes, sample.time_ns);
  put(bytes, sample.allocated_bytes);
}

void put_item(std::string& bytes, const OwnerMemorySample& sample) {
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

// Internal to this file: everything from here on is damaged.
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

void check_time(int64_t ns) {
  if (!is_trace_time(ns)) throw Damaged{};
}

void check_bytes(int64_t bytes) {
  if (bytes < -kMaxHeldBytes || bytes > kMaxHeldBytes) throw Damaged{};
}

template <typename Enum>
void get_enum(Cursor& payload, Enum last, Enum& value) {
  uint8_t number = 0;
  payload.get(number);
  if (number > static_cast<uint8_t>(last)) throw Damaged{};
  value = static_cast<Enum>(number);
}

UsageError other_version(int version) {
  return UsageError("is a trace of version " + std::to_string(version) + ", and this memtune reads versions 3 and " +
                    std::to_string(kVersion) + (version > kVersion ? ": a later one wrote it" : ": record it again"));
}

// Processes records in file order. Checks all indices, so that users of a trace need no checks.
class Reader {
 public:
  explicit Reader(Trace& trace) : trace_(trace) {}

  // Returns true at the end record. Ignores record types of later versions.
  bool read_record(std::string_view payload) {
    const auto type = static_cast<Record>(payload[0]);
    payload.remove_prefix(1);
    Cursor items(payload);
    switch (type) {
      case Record::header: read_header(payload); break;
      case Record::names: read_items(items, trace_.names); break;
      case Record::events: read_items(items, trace_.events); break;
      case Record::memory: read_items(items, trace_.memory); break;
      case Record::owned: read_items(items, trace_.owned); break;
      case Record::end: return true;
    }
    return false;
  }

 private:
  // If the header is refused, nothing of it stays in the trace.
  void read_header(std::string_view payload) {
    // A second header would invalidate the indices checked so far.
    if (!trace_.tracks.empty() || !trace_.events.empty() || !trace_.owned.empty()) throw Damaged{};
    try {
      read_fields(payload);
    } catch (const Json::exception&) {
      trace_ = {};
      throw Damaged{};
    } catch (const Damaged&) {
      trace_ = {};
      throw;
    }
  }

  void read_fields(std::string_view payload) {
    const Json header = parse_json(payload);
    const int version = whole_int_at(header, "version");
    if (version > kVersion) throw other_version(version);
    header.at("strategy").get_to(trace_.strategy);
    header.at("device").get_to(trace_.device);
    trace_.lost_records = whole_at(header, "lost_records", 0);
    trace_.budget_bytes = whole_at(header, "budget_bytes", 0, kMaxBytes);
    read_tables(header);
    if (trace_.owners.size() > kMaxOwners) throw Damaged{};
    OverflowCheckedSum values;
    for (const TracedActivationPlacement& value : trace_.values)
      if (!values.add(value.bytes)) throw Damaged{};
  }

  void read_tables(const Json& header) {
    header.at("origin").get_to(trace_.origin);
    if (header.contains("measured_rank")) trace_.measured_rank = whole_int_at(header, "measured_rank");
    if (header.contains("start_ns")) trace_.start_ns = whole_at(header, "start_ns", 0, kMaxAbsTimeNs);
    for (const Json& track : header.at("tracks"))
      trace_.tracks.push_back({known(parse_track_role(track.at("role").get_ref<const std::string&>())),
                               whole_int_at(track, "stream"), whole_int_at(track, "rank")});
    for (const Json& value : header.at("values"))
      trace_.values.push_back({value.at("name"), value.at("region"), value.at("placement"), value.at("reason"),
                               whole_at(value, "bytes"), whole_int_at(value, "block")});
    for (const Json& owner : header.at("owners"))
      trace_.owners.push_back({known(parse_owner_kind(owner.at("kind").get_ref<const std::string&>())),
                               owner.at("name"), whole_int_at(owner, "block")});
  }

  template <typename Enum>
  static Enum known(std::optional<Enum> value) {
    if (!value) throw Damaged{};
    return *value;
  }

  template <typename Item>
  void read_items(Cursor& payload, std::vector<Item>& items) {
    while (!payload.done()) {
      Item item;
      get_item(payload, item);
      items.push_back(std::move(item));
    }
  }

  void get_item(Cursor& payload, std::string& name) const {
    uint32_t size = 0;
    payload.get(size);
    name = payload.take(size);
  }

  void get_item(Cursor& payload, TraceEvent& event) {
    get_enum(payload, EventKind::collective, event.kind);
    payload.get(event.track);
    payload.get(event.name);
    payload.get(event.start_ns);
    payload.get(event.end_ns);
    payload.get(event.bytes);
    payload.get(event.correlation);
    payload.get(event.value);
    check_sums(event);
    if (event.track >= trace_.tracks.size() || event.name >= trace_.names.size() ||
        (event.value && event.value.index() >= trace_.values.size()))
      throw Damaged{};
    get_types(payload, event);
  }

  // Reports sum over events, so the sums are bounded.
  void check_sums(const TraceEvent& event) {
    check_time(event.start_ns);
    check_time(event.end_ns);
    if (!bytes_.add(event.bytes) || !durations_ns_[event.kind].add(std::max<int64_t>(0, event.end_ns - event.start_ns)))
      throw Damaged{};
  }

  static void get_types(Cursor& payload, TraceEvent& event) {
    get_enum(payload, TraceRegionLevel::head, event.region.kind);
    get_enum(payload, Pass::optimizer, event.region.pass);
    payload.get(event.region.block);
    uint8_t flags = 0;
    payload.get(flags);
    event.pageable = (flags & 1U) != 0;
  }

  void get_item(Cursor& payload, AllocatedBytesSample& sample) const {
    payload.get(sample.time_ns);
    payload.get(sample.allocated_bytes);
    check_bytes(sample.allocated_bytes);
    check_time(sample.time_ns);
  }

  void get_item(Cursor& payload, OwnerMemorySample& sample) const {
    payload.get(sample.time_ns);
    payload.get(sample.owner);
    payload.get(sample.bytes);
    check_bytes(sample.bytes);
    check_time(sample.time_ns);
    if (sample.owner >= trace_.owners.size()) throw Damaged{};
  }

  Trace& trace_;
  OverflowCheckedSum bytes_{kMaxCopiedBytes};  // sum over the events so far
  struct Duration : OverflowCheckedSum {
    Duration() : OverflowCheckedSum(kMaxDurationNs) {}
  };
  std::map<EventKind, Duration> durations_ns_;
};

std::string_view checked_payload(Cursor& file) {
  uint32_t size = 0, check = 0;
  file.get(size);
  file.get(check);
  const std::string_view payload = file.take(size);
  if (payload.empty() || check_of(payload) != check) throw Damaged{};
  return payload;
}

void check_magic(Cursor& file) {
  const char digit = file.left() > kMagic.size() && file.take(kMagic.size()) == kMagic ? file.take(1)[0] : ' ';
  if (digit < '1' || digit > '9') throw UsageError("is not a trace file of memtune");
  if (digit != '3') throw other_version(digit - '0');
}

TraceReadResult read_content(std::string_view content) {
  Cursor file(content);
  check_magic(file);
  const auto here = [&] { return static_cast<int64_t>(content.size() - file.left()); };
  TraceReadResult read;
  Reader reader(read.trace);
  int64_t record_at = here();
  try {
    while (!reader.read_record(checked_payload(file))) record_at = here();
    if (!file.done()) read.cut_at = here();
  } catch (const Damaged&) {
    read.cut_at = record_at;
  }
  return read;
}

}  // namespace

void write_trace(const std::filesystem::path& path, const Trace& trace, FileSystem& system) {
  std::string file = std::string(kMagic) + '3';
  write_header(file, trace);
  write_items(file, Record::names, trace.names);
  write_items(file, Record::events, trace.events);
  write_items(file, Record::memory, trace.memory);
  write_items(file, Record::owned, trace.owned);
  RecordWriter(file, Record::end).close();
  write_file(path, file, system);
}

TraceReadResult read_trace(const std::filesystem::path& path) try {
  ConfinedFileSystem folder(path.has_parent_path() ? path.parent_path() : ".");
  return read_content(read_file(path, folder, kMaxTraceBytes));
} catch (const UsageError& error) {
  throw UsageError("'" + path.string() + "' " + error.what());
}

}  // namespace memtune::trace
