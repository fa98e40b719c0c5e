// Traces are written by processes that may be killed, and read much later. Reading any bytes must not crash and must
// return what precedes the damage.
#include "core/record/trace/file.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/record/trace/bounds.h"

using namespace memtune;
using namespace memtune::trace;
namespace fs = std::filesystem;

namespace memtune::trace {
static bool operator==(const TraceEvent& a, const TraceEvent& b) {
  return a.kind == b.kind && a.track == b.track && a.name == b.name && a.start_ns == b.start_ns &&
         a.end_ns == b.end_ns && a.bytes == b.bytes && a.correlation == b.correlation && a.value == b.value &&
         a.region == b.region && a.pageable == b.pageable;
}
static bool operator==(const AllocatedBytesSample& a, const AllocatedBytesSample& b) {
  return a.time_ns == b.time_ns && a.allocated_bytes == b.allocated_bytes;
}
static bool operator==(const TracedActivationPlacement& a, const TracedActivationPlacement& b) {
  return a.name == b.name && a.region == b.region && a.placement == b.placement && a.reason == b.reason &&
         a.bytes == b.bytes && a.block == b.block;
}
static bool operator==(const MemoryOwner& a, const MemoryOwner& b) {
  return a.kind == b.kind && a.name == b.name && a.block == b.block;
}
static bool operator==(const RunProvenance& a, const RunProvenance& b) {
  return a.written == b.written && a.command == b.command && a.model == b.model && a.memtune == b.memtune &&
         a.torch == b.torch && a.driver == b.driver && a.machine == b.machine;
}
static bool operator==(const OwnerMemorySample& a, const OwnerMemorySample& b) {
  return a.time_ns == b.time_ns && a.owner == b.owner && a.bytes == b.bytes;
}
static bool operator==(const Trace& a, const Trace& b) {
  return a.origin == b.origin && a.strategy == b.strategy && a.device == b.device && a.tracks == b.tracks &&
         a.names == b.names && a.events == b.events && a.memory == b.memory && a.values == b.values &&
         a.owners == b.owners && a.owned == b.owned && a.budget_bytes == b.budget_bytes &&
         a.lost_records == b.lost_records && a.measured_rank == b.measured_rank;
}
}  // namespace memtune::trace

namespace {

struct TraceFile {
  TraceFile() {
    std::string name = (fs::temp_directory_path() / "memtune-trace-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = folder / "trace";
  }
  ~TraceFile() { fs::remove_all(folder); }
  TraceReadResult read(std::string_view content) const {
    // Not write_file: thousands of fsyncs would make this test slow.
    FILE* file = std::fopen(path.c_str(), "wb");
    REQUIRE(file != nullptr);
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
    return read_trace(path);
  }
  fs::path folder, path;
};

Trace small() {
  Trace trace;
  trace.strategy = "offload:stream";
  trace.device = "NVIDIA H200";
  trace.lost_records = 3;
  trace.measured_rank = 2;
  trace.origin = {"2026-11-22T07:30:00Z", "memtune sweep", "model.pt", "0.1.0", "2.11.0", "580.65", "16 cores"};
  const uint32_t compute = trace.track({TrackRole::compute, 7}), host = trace.track({TrackRole::steps, -1, 2});
  trace.events = {{EventKind::kernel, compute, trace.name("gemm"), 10, 20, 0, 1},
                  {EventKind::copy_out, compute, trace.name(std::string("odd \0 \xff", 7)), 15, 30, int64_t{1} << 40,
                   ~0ull, ValueId(1)},
                  {EventKind::region, host, trace.name("layers.3"), -5, 40, 0, 0}};
  trace.events[1].pageable = true;
  trace.events[2].region = TraceRegionKey::of_block(3, Pass::recompute);
  trace.memory = {{0, 100}, {12, int64_t{1} << 37}};
  trace.values = {{"layers.3 silu", "layers.3", "recompute", "", 7, 3},
                  {"head mm", "", "host", "dear", int64_t{1} << 40}};
  trace.owners = {{MemoryOwnerKind::parameters, "parameters"}, {MemoryOwnerKind::block, "layers.3", 3}};
  trace.owned = {{0, 0, 60}, {12, 1, int64_t{1} << 36}};
  trace.budget_bytes = int64_t{1} << 38;
  return trace;
}

template <typename Item>
bool is_prefix(const std::vector<Item>& part, const std::vector<Item>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

bool is_beginning_of(const Trace& part, const Trace& whole) {
  return is_prefix(part.tracks, whole.tracks) && is_prefix(part.names, whole.names) &&
         is_prefix(part.events, whole.events) && is_prefix(part.memory, whole.memory) &&
         is_prefix(part.owned, whole.owned);
}

void append_record(std::string& file, const std::string& payload) {
  const uint32_t head[2] = {static_cast<uint32_t>(payload.size()),
                            static_cast<uint32_t>(XXH3_64bits(payload.data(), payload.size()))};
  file.append(reinterpret_cast<const char*>(head), sizeof head);
  file += payload;
}

std::string header_of(int version, const std::string& tracks, const std::string& values, const std::string& owners) {
  return R"({"version":)" + std::to_string(version) +
         R"(,"strategy":"none","device":"","lost_records":0,"budget_bytes":0,"origin":{"written":"","command":"",)" +
         R"("model":"","memtune":"","torch":"","driver":"","machine":""},"tracks":)" + tracks + R"(,"values":)" +
         values + R"(,"owners":)" + owners + "}";
}

}  // namespace

TEST_CASE("a trace and an empty trace are read back unchanged") {
  const TraceFile file;
  for (const Trace& trace : {small(), Trace()}) {
    write_trace(file.path, trace);
    const TraceReadResult read = read_trace(file.path);
    CHECK_FALSE(read.cut());
    CHECK(read.trace == trace);
  }
}

TEST_CASE("a trace of many records is read back and its first half gives about half of the events") {
  const TraceFile file;
  Trace trace = small();
  for (int i = 0; i < 100'000; ++i)
    trace.events.push_back({EventKind::kernel, 0, trace.name("k" + std::to_string(i % 500)), i, i + 1, i, 7});
  write_trace(file.path, trace);
  CHECK(read_trace(file.path).trace == trace);
  const std::string content = read_file(file.path);
  const TraceReadResult half = file.read(std::string_view(content).substr(0, content.size() / 2));
  CHECK(half.cut());
  CHECK(half.trace.names == trace.names);
  CHECK(half.trace.events.size() > 20'000);
  CHECK(is_beginning_of(half.trace, trace));
}

TEST_CASE("a trace cut at any byte is read up to the cut and reported as cut") {
  const TraceFile file;
  write_trace(file.path, small());
  const std::string content = read_file(file.path);
  for (size_t size = 0; size < content.size(); ++size) {
    CAPTURE(size);
    if (size < 8) {
      CHECK_THROWS_AS(file.read(content.substr(0, size)), UsageError);
      continue;
    }
    const TraceReadResult read = file.read(content.substr(0, size));
    CHECK(read.cut());
    CHECK(is_beginning_of(read.trace, small()));
  }
  // The end record has 9 bytes. Without it nothing else is lost.
  CHECK(file.read(content.substr(0, content.size() - 9)).trace == small());
}

TEST_CASE("any changed byte is detected and nothing after it is read") {
  const TraceFile file;
  write_trace(file.path, small());
  const std::string content = read_file(file.path);
  for (size_t at = 0; at < content.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      CAPTURE(at);
      std::string damaged = content;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      if (at < 8) {
        CHECK_THROWS_AS(file.read(damaged), UsageError);
        continue;
      }
      const TraceReadResult read = file.read(damaged);
      CHECK(read.cut());
      CHECK(is_beginning_of(read.trace, small()));
    }
  }
}

TEST_CASE("bytes after the end record are reported as damage") {
  const TraceFile file;
  write_trace(file.path, small());
  const TraceReadResult read = file.read(read_file(file.path) + "x");
  CHECK(read.cut_at == static_cast<int64_t>(fs::file_size(file.path)) - 1);
  CHECK(read.trace == small());
}

TEST_CASE("records with a valid checksum and invalid content are damage and do not crash") {
  const TraceFile file;
  const std::string header = header_of(3, R"([{"role":"compute","stream":7,"rank":0}])", "[]",
                                       R"([{"kind":"outside","name":"o","block":-1}])");
  const std::string name("\x02\x02\0\0\0ab", 7);
  std::string event(53, '\0');
  event[0] = '\x03';
  event.replace(42, 4, "\xff\xff\xff\xff", 4);
  std::string good = "MTTRACE3";
  append_record(good, "\x01" + header);
  append_record(good, name);
  append_record(good, event);
  REQUIRE(file.read(good).trace.events.size() == 1);

  const auto changed = [&](size_t at, char byte) {
    std::string other = event;
    other[at] = byte;
    return other;
  };
  const std::string unknown_kind = changed(1, 13), unknown_track = changed(2, 1), unknown_name = changed(6, 1),
                    far = changed(25, '\x7f'),  // ends in 292 years
      unknown_region = changed(46, 6), unknown_pass = changed(47, 4);
  std::string unknown_value = event;
  unknown_value.replace(42, 4, 4, '\0');
  for (const std::string& payload :
       {unknown_kind, unknown_track, unknown_name, unknown_value, unknown_region, unknown_pass, far,
        event.substr(0, 52), std::string("\x06") + std::string(8, '\0') + "\x01" + std::string(11, '\0'),
        std::string("\x02\xff\xff\xff\xff", 5) + "ab", "\x01" + header, std::string("\x04short"), std::string("\x01"),
        std::string("\x01[]"), std::string("\x01{\"strategy\":3}"), "\x01" + std::string(100'000, '['),
        std::string()}) {
    std::string bad = good;
    append_record(bad, payload);
    append_record(bad, "\x05");
    const TraceReadResult read = file.read(bad);
    CHECK(read.cut_at == static_cast<int64_t>(good.size()));
    CHECK(read.trace.events.size() == 1);
  }
}

TEST_CASE("sizes and times that overflow alone or in sum are damage") {
  const TraceFile file;
  const auto read_back = [&](const std::vector<TraceEvent>& events) {
    Trace trace = small();
    trace.events = events;
    write_trace(file.path, trace);
    return read_trace(file.path);
  };
  constexpr int64_t kHalf = kMaxCopiedBytes / 2;
  const TraceEvent copy{EventKind::copy_out, 0, 0, 10, 20, kHalf}, long_one{EventKind::kernel, 0, 0, -kMaxAbsTimeNs, 0};
  const auto with_bytes = [&](int64_t bytes) {
    TraceEvent event = copy;
    event.bytes = bytes;
    return event;
  };
  CHECK_FALSE(read_back({copy, copy}).cut());
  CHECK(read_back({copy, copy, copy}).cut());
  CHECK(read_back({copy, copy, copy}).trace.events.size() == 2);
  CHECK(read_back({with_bytes(INT64_MAX)}).trace.events.empty());
  CHECK(read_back({with_bytes(-1)}).trace.events.empty());
  CHECK_FALSE(read_back({long_one, long_one}).cut());
  CHECK(read_back({long_one, long_one, long_one}).trace.events.size() == 2);
}

TEST_CASE("a header with an impossible number is dropped whole") {
  const TraceFile file;
  const auto read_back = [&](auto change) {
    Trace trace = small();
    change(trace);
    write_trace(file.path, trace);
    return read_trace(file.path);
  };
  const std::vector<std::function<void(Trace&)>> changes = {
      [](Trace& trace) { trace.lost_records = INT64_MAX; },
      [](Trace& trace) { trace.lost_records = -1; },
      [](Trace& trace) { trace.budget_bytes = kMaxBytes + 1; },
      [](Trace& trace) { trace.start_ns = kMaxAbsTimeNs + 1; },
      [](Trace& trace) { trace.start_ns = INT64_MIN; },
      [](Trace& trace) { trace.values[0].bytes = INT64_MAX; },
      [](Trace& trace) { trace.values[0].bytes = -1; },
      [](Trace& trace) { trace.values[0].bytes = trace.values[1].bytes = kMaxBytes / 2 + 1; },
  };
  for (const auto& change : changes) {
    const TraceReadResult read = read_back(change);
    CHECK(read.cut_at == 8);
    CHECK(read.trace.values.empty());
    CHECK(read.trace.tracks.empty());
    CHECK(read.trace.lost_records == 0);
  }
}

TEST_CASE("a header with a role or owner unknown to its version is damage") {
  const TraceFile file;
  for (const std::string& header :
       {header_of(3, R"([{"role":"cores","stream":7,"rank":0}])", "[]", "[]"),
        header_of(3, "[]", "[]", R"([{"kind":"nobody","name":"o","block":-1}])"), header_of(3, "[]", "[{}]", "[]")}) {
    std::string content = "MTTRACE3";
    append_record(content, "\x01" + header);
    CHECK(file.read(content).cut_at == 8);
  }
}

TEST_CASE("a file of another version is refused with its version and not called damaged") {
  const TraceFile file;
  std::string later = "MTTRACE3";
  append_record(later, "\x01" + header_of(5, R"([{"role":"unheard of"}])", "[]", "[]"));
  const auto refused = [&](const std::string& content, const std::string& version, const std::string& way_out) {
    CHECK_THROWS_WITH_AS(file.read(content),
                         ("'" + file.path.string() + "' is a trace of version " + version +
                          ", and this memtune reads versions 3 and 4: " + way_out)
                             .c_str(),
                         UsageError);
  };
  refused(later, "5", "a later one wrote it");
  refused("MTTRACE7 with any content", "7", "a later one wrote it");
  refused("MTTRACE2", "2", "record it again");
  refused("MTTRACE1", "1", "record it again");
}

TEST_CASE("records of an unknown type are skipped") {
  const TraceFile file;
  std::string content = "MTTRACE3";
  append_record(content, "\x63later");
  append_record(content, "\x05");
  CHECK_FALSE(file.read(content).cut());
}

TEST_CASE("a file that is not a trace is refused by name") {
  const TraceFile file;
  const std::string message = "'" + file.path.string() + "' is not a trace file of memtune";
  CHECK_THROWS_WITH_AS(file.read(""), message.c_str(), UsageError);
  CHECK_THROWS_WITH_AS(file.read("PK\x03\x04 a zip"), message.c_str(), UsageError);
  fs::remove(file.path);
  CHECK_THROWS_AS(read_trace(file.path), IoError);
}
