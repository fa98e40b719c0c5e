// Traces are written by processes that may be killed and read long after: whatever the bytes, reading must not crash,
// and what precedes the damage must come back.
#include "core/trace/file.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

using namespace memtune;
using namespace memtune::trace;
namespace fs = std::filesystem;

namespace memtune::trace {
static bool operator==(const Event& a, const Event& b) {
  return a.kind == b.kind && a.track == b.track && a.name == b.name && a.start_ns == b.start_ns &&
         a.end_ns == b.end_ns && a.bytes == b.bytes && a.correlation == b.correlation && a.value == b.value;
}
static bool operator==(const MemorySample& a, const MemorySample& b) {
  return a.time_ns == b.time_ns && a.allocated_bytes == b.allocated_bytes;
}
static bool operator==(const Value& a, const Value& b) {
  return a.name == b.name && a.region == b.region && a.placement == b.placement && a.reason == b.reason &&
         a.bytes == b.bytes;
}
static bool operator==(const OwnedSample& a, const OwnedSample& b) {
  return a.time_ns == b.time_ns && a.owner == b.owner && a.bytes == b.bytes;
}
static bool operator==(const Track& a, const Track& b) { return a.name == b.name && a.device == b.device; }
static bool operator==(const Trace& a, const Trace& b) {
  return a.strategy == b.strategy && a.device == b.device && a.tracks == b.tracks && a.names == b.names &&
         a.events == b.events && a.memory == b.memory && a.values == b.values && a.owners == b.owners &&
         a.owned == b.owned && a.budget_bytes == b.budget_bytes && a.lost_records == b.lost_records;
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
  ReadTrace read(std::string_view content) const {
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
  const uint32_t compute = trace.track("compute stream 7", true), host = trace.track("host", false);
  trace.events = {
      {EventKind::kernel, compute, trace.name("gemm"), 10, 20, 0, 1},
      {EventKind::copy_out, compute, trace.name(std::string("odd \0 \xff", 7)), 15, 30, int64_t{1} << 40, ~0ull, 2},
      {EventKind::region, host, trace.name("layers.3"), -5, 40, 0, 0}};
  trace.memory = {{0, 100}, {12, int64_t{1} << 37}};
  trace.values = {{"layers.3 silu", "layers.3", "recompute", "", 7}, {"head mm", "", "host", "dear", int64_t{1} << 40}};
  trace.owners = {"parameters", "layers.3"};
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

}  // namespace

TEST_CASE("a trace is read back as it was written, the empty one too") {
  const TraceFile file;
  for (const Trace& trace : {small(), Trace()}) {
    write_trace(file.path, trace);
    const ReadTrace read = read_trace(file.path);
    CHECK_FALSE(read.cut());
    CHECK(read.trace == trace);
  }
}

TEST_CASE("a trace of many records is read back, and cut in the middle gives about half") {
  const TraceFile file;
  Trace trace = small();
  for (int i = 0; i < 100'000; ++i)
    trace.events.push_back({EventKind::kernel, 0, trace.name("k" + std::to_string(i % 500)), i, i + 1, i, 7});
  write_trace(file.path, trace);
  CHECK(read_trace(file.path).trace == trace);
  const std::string content = read_file(file.path);
  const ReadTrace half = file.read(std::string_view(content).substr(0, content.size() / 2));
  CHECK(half.cut());
  CHECK(half.trace.names == trace.names);
  CHECK(half.trace.events.size() > 20'000);
  CHECK(is_beginning_of(half.trace, trace));
}

TEST_CASE("a trace cut at any byte is read up to the cut and says so") {
  const TraceFile file;
  write_trace(file.path, small());
  const std::string content = read_file(file.path);
  for (size_t size = 0; size < content.size(); ++size) {
    CAPTURE(size);
    if (size < 8) {
      CHECK_THROWS_AS(file.read(content.substr(0, size)), UsageError);
      continue;
    }
    const ReadTrace read = file.read(content.substr(0, size));
    CHECK(read.cut());
    CHECK(is_beginning_of(read.trace, small()));
  }
  // The end record is 9 bytes: without it alone nothing else is lost.
  CHECK(file.read(content.substr(0, content.size() - 9)).trace == small());
}

TEST_CASE("any changed byte is noticed and nothing from behind it is believed") {
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
      const ReadTrace read = file.read(damaged);
      CHECK(read.cut());
      CHECK(is_beginning_of(read.trace, small()));
    }
  }
}

TEST_CASE("bytes behind the end are reported as damage") {
  const TraceFile file;
  write_trace(file.path, small());
  const ReadTrace read = file.read(read_file(file.path) + "x");
  CHECK(read.cut_at == static_cast<int64_t>(fs::file_size(file.path)) - 1);
  CHECK(read.trace == small());
}

TEST_CASE("records with a right check and wrong content are damage, not a crash") {
  const TraceFile file;
  const std::string header =
      R"({"strategy":"none","device":"","lost_records":0,"tracks":[{"name":"t","device":true}],"values":[],"owners":["o"],"budget_bytes":0})";
  const std::string name("\x02\x02\0\0\0ab", 7);
  std::string event(46, '\0');
  event[0] = '\x03';
  std::string good = "MTTRACE2";
  append_record(good, "\x01" + header);
  append_record(good, name);
  append_record(good, event);
  REQUIRE(file.read(good).trace.events.size() == 1);

  std::string unknown_kind = event, unknown_track = event, unknown_name = event, unknown_value = event;
  unknown_kind[1] = 13;
  unknown_value[42] = 1;
  unknown_track[2] = 1;
  unknown_name[6] = 1;
  std::string far = event;
  far[25] = '\x7f';  // ends in 292 years
  for (const std::string& payload :
       {unknown_kind, unknown_track, unknown_name, unknown_value, far, event.substr(0, 45),
        std::string("\x06") + std::string(8, '\0') + "\x01" + std::string(11, '\0'),
        std::string("\x02\xff\xff\xff\xff", 5) + "ab", "\x01" + header, std::string("\x04short"), std::string("\x01"),
        std::string("\x01[]"), std::string("\x01{\"strategy\":3}"), "\x01" + std::string(100'000, '['),
        std::string()}) {
    std::string bad = good;
    append_record(bad, payload);
    append_record(bad, "\x05");
    const ReadTrace read = file.read(bad);
    CHECK(read.cut_at == static_cast<int64_t>(good.size()));
    CHECK(read.trace.events.size() == 1);
  }
}

TEST_CASE("records of an unknown type are passed over") {
  const TraceFile file;
  std::string content = "MTTRACE2";
  append_record(content, "\x63later");
  append_record(content, "\x05");
  CHECK_FALSE(file.read(content).cut());
}

TEST_CASE("what is no trace file is refused by name") {
  const TraceFile file;
  const std::string message = "'" + file.path.string() + "' is not a trace file of memtune";
  CHECK_THROWS_WITH_AS(file.read(""), message.c_str(), UsageError);
  CHECK_THROWS_WITH_AS(file.read("PK\x03\x04 a zip"), message.c_str(), UsageError);
  fs::remove(file.path);
  CHECK_THROWS_AS(read_trace(file.path), IoError);
}
