#include "core/plan/facts/recorded_step_costs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/base/bounds.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/record/trace/private_save.h"

namespace memtune::plan {
namespace {

using nlohmann::json;

constexpr int kCostsVersion = 2, kShardedVersion = 3;
constexpr int kMaxRanks = 1 << 20;
constexpr int kMaxRuns = 1 << 24;
constexpr int kMaxPasses = 1 << 20;
constexpr int64_t kMaxMadeBytes = int64_t{1} << 46;  // created by one micro-batch, 64 TiB; also the limit for gathers
constexpr int kDeepestValues = 10'000;               // values in a chain; recomputation recurses that deep
constexpr double kMinStepMs = 1e-6, kMaxMs = 1e9, kMaxGbPerS = 1e6, kMaxRatio = 1e6;

// A table as rows of numbers in the order of `columns`, because there are thousands of entries.
json rows_json(const json& columns, const json& rows) { return {{"columns", columns}, {"rows", rows}}; }

// One row of a table; its cells are read in order.
class Row {
 public:
  Row(const json& row, std::string path, size_t columns) : row_(row), path_(std::move(path)) {
    if (!row.is_array() || row.size() != columns)
      throw UsageError(path_ + " must be a list of " + std::to_string(columns));
  }
  double ms() {
    return named([&] { return number(next(), 0, kMaxMs); });
  }
  int64_t bytes() { return integer(0, kMaxBytes); }
  // For a column whose sum is bounded.
  int64_t bytes(OverflowCheckedSum& sum) {
    const int64_t one = bytes();
    if (!sum.add(one)) throw UsageError(path_ + " has more bytes than a step can move");
    return one;
  }
  std::string text() {
    const json& cell = next();
    if (!cell.is_string()) throw UsageError(path_ + " must have a name, not " + cell.dump());
    return cell.get<std::string>();
  }
  int64_t integer(int64_t least, int64_t most) { return integer(next(), least, most); }
  int index(size_t count, int least = 0) { return static_cast<int>(integer(least, static_cast<int64_t>(count) - 1)); }
  std::vector<int> indices(size_t count) {
    const json& cell = next();
    if (!cell.is_array()) throw UsageError(path_ + " must have a list, not " + cell.dump());
    std::vector<int> list;
    for (const json& one : cell) list.push_back(static_cast<int>(integer(one, 0, static_cast<int64_t>(count) - 1)));
    return list;
  }

 private:
  const json& next() { return row_[column_++]; }
  template <typename Read>
  std::invoke_result_t<Read> named(Read read) const try {
    return read();
  } catch (const json::exception& why) {
    throw UsageError(path_ + ": " + why.what());
  }
  int64_t integer(const json& cell, int64_t least, int64_t most) const {
    return named([&] { return whole(cell, least, most); });
  }

  const json& row_;
  std::string path_;
  size_t column_ = 0;
};

const json& rows_of(JsonObjectReader& costs, const char* key, size_t columns) {
  const json* table = costs.find(key);
  if (table == nullptr) throw UsageError(costs.path(key) + " is missing");
  if (!table->is_object() || !table->contains("rows") || !(*table)["rows"].is_array() ||
      (*table)["rows"].size() > size_t{kMaxRuns})
    throw UsageError(costs.path(key) + " must be a table with rows");
  const json names = table->value("columns", json::array());
  if (names.size() != columns) throw UsageError(costs.path(key) + ".columns must be " + std::to_string(columns));
  return (*table)["rows"];
}

// Checks that each value is computed from earlier values only, with a bounded depth.
void check_order(const RecordedStepCosts& costs) {
  constexpr int kUnknown = -1;
  for (size_t run = 0; run < costs.runs.size(); ++run)
    for (const int value : costs.runs[run].makes)
      if (costs.values[value].run != static_cast<int>(run)) throw UsageError("costs.runs makes a value of another run");
  std::vector<int> depth(costs.values.size()), depth_of_run(costs.runs.size(), kUnknown);
  for (size_t i = 0; i < costs.values.size(); ++i) {
    const RecordedStepCosts::Value& value = costs.values[i];
    const auto below = [&](int source) {
      if (source >= static_cast<int>(i)) throw UsageError("costs.values has one made from what is not there yet");
      return depth[source];
    };
    if (value.run < 0) continue;
    int& of_run = depth_of_run[value.run];
    if (of_run == kUnknown)
      for (const int read : costs.runs[value.run].reads) of_run = std::max(of_run, below(read));
    depth[i] = 1 + std::max({of_run, 0, value.cast_of < 0 ? 0 : below(value.cast_of)});
    if (depth[i] > kDeepestValues)
      throw UsageError("costs.values has one made from others more than " + std::to_string(kDeepestValues) + " deep");
  }
}

const json kValueColumns = {"run", "output", "bytes", "cast_of"};
const json kRunColumns = {"op",    "ms",    "host_ms", "before_bytes", "own_bytes", "writes_outside",
                          "reads", "makes", "writes",  "saves"};
const json kSavedColumns = {"value", "run"};
const json kMomentColumns = {"kind", "saved", "ms", "host_ms", "before_bytes", "peak_bytes"};
const json kIssueColumns = {"ms", "waits"};
const json kUnitColumns = {"name", "bytes", "gather_ms"};
const json kStateColumns = {"name", "block", "trained_bytes", "frozen_bytes", "moment_bytes"};
const json kReaderColumns = {"run", "units"};
const json kReadColumns = {"moment", "before_bytes", "peak_bytes", "wait_ms", "units"};

json issue_json(const RecordedStepCosts::IssueTimes& issue) {
  const auto table = [](const std::vector<RecordedStepCosts::IssueTime>& times) {
    json rows = json::array();
    for (const RecordedStepCosts::IssueTime& time : times) rows.push_back({time.ms, int{time.waits}});
    return rows_json(kIssueColumns, rows);
  };
  return {{"runs", table(issue.runs)},  {"moments", table(issue.moments)}, {"before_ms", issue.before_ms},
          {"after_ms", issue.after_ms}, {"engine_ms", issue.engine_ms},    {"copy_ms", issue.copy_ms}};
}

void read_issue(const json& json, RecordedStepCosts& costs) {
  JsonObjectReader object(json, "costs.issue");
  const auto read_table = [&](const char* key, size_t count, std::vector<RecordedStepCosts::IssueTime>& times) {
    for (const auto& cells : rows_of(object, key, kIssueColumns.size())) {
      Row row(cells, object.path(key), kIssueColumns.size());
      const double ms = row.ms();
      times.push_back({ms, row.integer(0, 1) == 1});
    }
    if (times.size() != count) throw UsageError(object.path(key) + " must have " + std::to_string(count) + " rows");
  };
  read_table("runs", costs.runs.size(), costs.issue.runs);
  read_table("moments", costs.moments.size(), costs.issue.moments);
  object.read("before_ms", costs.issue.before_ms, 0, kMaxMs);
  object.read("after_ms", costs.issue.after_ms, 0, kMaxMs);
  object.read("engine_ms", costs.issue.engine_ms, 0, kMaxMs);
  object.read("copy_ms", costs.issue.copy_ms, 0, kMaxMs);
}

json states_json(const RecordedStepCosts::States& states) {
  json units = json::array();
  for (const RecordedStepCosts::StateUnit& unit : states.units)
    units.push_back({unit.name, unit.block, unit.trained_bytes, unit.frozen_bytes, unit.moment_bytes});
  json out = {{"clips", states.clips},
              {"updates_in_backward", states.updates_in_backward},
              {"units", rows_json(kStateColumns, units)}};
  if (states.placements.empty()) return out;
  out["placements"] = states.placements;
  out["measured_ms"] = states.measured_ms;
  return out;
}

void read_states(const json& json, RecordedStepCosts::States& states) {
  JsonObjectReader object(json, "costs.states");
  object.read("clips", states.clips);
  object.read("updates_in_backward", states.updates_in_backward);
  object.read("measured_ms", states.measured_ms, 0, kMaxMs);
  for (const auto& placement : object.array("placements"))
    states.placements.push_back(placement.get<UnitStatePlacement>());
  OverflowCheckedSum moved(kMaxMadeBytes);
  for (const auto& cells : rows_of(object, "units", kStateColumns.size())) {
    Row row(cells, "costs.states.units", kStateColumns.size());
    RecordedStepCosts::StateUnit& unit = states.units.emplace_back();
    unit.name = row.text();
    unit.block = static_cast<int>(row.integer(RecordedStepCosts::StateUnit::kBehind, kMaxRuns));
    unit.trained_bytes = row.bytes(moved);
    unit.frozen_bytes = row.bytes(moved);
    unit.moment_bytes = row.bytes(moved);
  }
}

// Sharded costs have a file version of their own, because a reader without units would misinterpret the rest.
json sharding_json(const RecordedStepCosts& costs) {
  json units = json::array(), runs = units, reads = units;
  for (const auto& unit : costs.sharding.units) units.push_back({unit.name, unit.bytes, unit.gather_ms});
  for (size_t i = 0; i < costs.runs.size(); ++i)
    if (!costs.runs[i].units.empty()) runs.push_back({i, costs.runs[i].units});
  for (const auto& read : costs.sharding.reads)
    reads.push_back({read.moment, read.before_bytes, read.peak_bytes, read.wait_ms, read.units});
  json sharding = {{"ranks", costs.sharding.ranks},           {"rank", costs.sharding.rank},
                   {"reshard", costs.sharding.reshard},       {"forward_wait_ms", costs.sharding.forward_wait_ms},
                   {"units", rows_json(kUnitColumns, units)}, {"runs", rows_json(kReaderColumns, runs)},
                   {"reads", rows_json(kReadColumns, reads)}};
  if (costs.sharding.shard_bytes >= 0) sharding["shard_bytes"] = costs.sharding.shard_bytes;
  return sharding;
}

void read_sharding(const json& json, RecordedStepCosts& costs) {
  JsonObjectReader object(json, "costs.sharding");
  RecordedStepCosts::Sharding& sharding = costs.sharding;
  object.read("ranks", sharding.ranks, 1, kMaxRanks);
  object.read("rank", sharding.rank, 0, sharding.ranks - 1);
  object.read("reshard", sharding.reshard);
  if (std::ranges::count(kReshard, sharding.reshard) == 0)
    throw UsageError(unknown_name("costs.sharding.reshard", sharding.reshard, kReshard));
  object.read("forward_wait_ms", sharding.forward_wait_ms, 0, kMaxMs);
  object.read("shard_bytes", sharding.shard_bytes, 0, kMaxBytes);
  OverflowCheckedSum gathered(kMaxMadeBytes);
  for (const auto& cells : rows_of(object, "units", kUnitColumns.size())) {
    Row row(cells, "costs.sharding.units", kUnitColumns.size());
    RecordedStepCosts::Unit& unit = sharding.units.emplace_back();
    unit.name = row.text();
    unit.bytes = row.bytes(gathered);
    unit.gather_ms = row.ms();
  }
  if (sharding.units.empty()) throw UsageError("costs.sharding has no units");
  for (const auto& cells : rows_of(object, "runs", kReaderColumns.size())) {
    Row row(cells, "costs.sharding.runs", kReaderColumns.size());
    RecordedStepCosts::Run& run = costs.runs[static_cast<size_t>(row.index(costs.runs.size()))];
    run.units = row.indices(sharding.units.size());
  }
  int moment = 0;
  for (const auto& cells : rows_of(object, "reads", kReadColumns.size())) {
    Row row(cells, "costs.sharding.reads", kReadColumns.size());
    RecordedStepCosts::UnitRead& read = sharding.reads.emplace_back();
    read.moment = moment = row.index(costs.moments.size() + 1, moment);
    read.before_bytes = row.bytes();
    read.peak_bytes = row.bytes();
    read.wait_ms = row.ms();
    read.units = row.indices(sharding.units.size());
  }
}

}  // namespace

double RecordedStepCosts::recorded_ms(int micro_batches) const {
  double ms = before_ms + rerun_ms + sharding.forward_wait_ms;
  for (const Run& run : runs) ms += run.ms;
  for (const Moment& moment : moments) ms += moment.ms;
  for (const UnitRead& read : sharding.reads) ms += read.wait_ms;
  return micro_batches * ms + after_ms;
}

void to_json(json& json, const RecordedStepCosts& costs) {
  nlohmann::json values = nlohmann::json::array(), runs = values, saved = values, moments = values;
  for (const auto& v : costs.values) values.push_back({v.run, v.output, v.bytes, v.cast_of});
  for (const auto& r : costs.runs)
    runs.push_back({r.op, r.ms, r.host_ms, r.before_bytes, r.own_bytes, int{r.writes_outside}, r.reads, r.makes,
                    r.writes, r.saves});
  for (const auto& s : costs.saved) saved.push_back({s.value, s.run});
  for (const auto& m : costs.moments)
    moments.push_back({static_cast<int>(m.kind), m.saved, m.ms, m.host_ms, m.before_bytes, m.peak_bytes});
  json = {{"version", kCostsVersion},
          {"grain_bytes", costs.grain_bytes},
          {"start_bytes", costs.start_bytes},
          {"device_overhead_bytes", costs.device_overhead_bytes},
          {"step_ms", costs.step_ms},
          {"rerun_ms", costs.rerun_ms},
          {"before_ms", costs.before_ms},
          {"before_peak_bytes", costs.before_peak_bytes},
          {"after_ms", costs.after_ms},
          {"after_peak_bytes", costs.after_peak_bytes},
          {"passes", costs.passes},
          {"rerun_ratio", costs.rerun_ratio},
          {"out_gb_per_s", costs.out_gb_per_s},
          {"in_gb_per_s", costs.in_gb_per_s},
          {"disk_write_gb_per_s", costs.disk_write_gb_per_s},
          {"disk_read_gb_per_s", costs.disk_read_gb_per_s},
          {"copy_slowdown", costs.copy_slowdown},
          {"values", rows_json(kValueColumns, values)},
          {"runs", rows_json(kRunColumns, runs)},
          {"saved", rows_json(kSavedColumns, saved)},
          {"moments", rows_json(kMomentColumns, moments)},
          {"gradient_bytes", costs.gradient_bytes},
          {"plan", costs.plan}};
  if (costs.expandable_segments) json["expandable_segments"] = true;
  if (costs.has_issue_times()) json["issue"] = issue_json(costs.issue);
  if (!costs.states.units.empty()) json["states"] = states_json(costs.states);
  if (!costs.sharded()) return;
  json["version"] = kShardedVersion;
  json["sharding"] = sharding_json(costs);
}

void from_json(const json& json, RecordedStepCosts& costs) {
  JsonObjectReader object(json, "costs");
  int version = 0;
  object.require({"version"});
  object.read("version", version, kCostsVersion, kShardedVersion);
  object.read("grain_bytes", costs.grain_bytes, 1, int64_t{1} << 30);
  object.read("expandable_segments", costs.expandable_segments);
  object.read("start_bytes", costs.start_bytes, 0, kMaxBytes);
  object.read("device_overhead_bytes", costs.device_overhead_bytes, 0, kMaxBytes);
  object.read("step_ms", costs.step_ms, kMinStepMs, kMaxMs);
  object.read("rerun_ms", costs.rerun_ms, 0, kMaxMs);
  object.read("before_ms", costs.before_ms, 0, kMaxMs);
  object.read("before_peak_bytes", costs.before_peak_bytes, 0, kMaxBytes);
  object.read("after_ms", costs.after_ms, 0, kMaxMs);
  object.read("after_peak_bytes", costs.after_peak_bytes, 0, kMaxBytes);
  object.read("passes", costs.passes, 1, kMaxPasses);
  object.read("rerun_ratio", costs.rerun_ratio, 0, kMaxRatio);
  object.read("out_gb_per_s", costs.out_gb_per_s, 0, kMaxGbPerS);
  object.read("in_gb_per_s", costs.in_gb_per_s, 0, kMaxGbPerS);
  object.read("disk_write_gb_per_s", costs.disk_write_gb_per_s, 0, kMaxGbPerS);
  object.read("disk_read_gb_per_s", costs.disk_read_gb_per_s, 0, kMaxGbPerS);
  object.read("copy_slowdown", costs.copy_slowdown, 0, 1);
  if (const auto* plan = object.find("plan")) costs.plan = plan->get<Plan>();
  if (costs.plan.offloads_activations())
    throw UsageError("costs.plan offloads activations: other plans cannot be predicted from such a step");
  const auto& values = rows_of(object, "values", kValueColumns.size());
  const auto& runs = rows_of(object, "runs", kRunColumns.size());
  const auto& saved = rows_of(object, "saved", kSavedColumns.size());
  const auto& moments = rows_of(object, "moments", kMomentColumns.size());
  OverflowCheckedSum made(kMaxMadeBytes);
  for (const auto& cells : values) {
    Row row(cells, "costs.values", kValueColumns.size());
    RecordedStepCosts::Value& value = costs.values.emplace_back();
    value.run = row.index(runs.size(), -1);
    value.output = static_cast<int>(row.integer(kPrivateSave, kMaxRuns));
    value.bytes = row.bytes(made);
    value.cast_of = row.index(values.size(), RecordedStepCosts::kNoCast);
  }
  for (const auto& cells : runs) {
    Row row(cells, "costs.runs", kRunColumns.size());
    RecordedStepCosts::Run& run = costs.runs.emplace_back();
    run.op = static_cast<int>(row.integer(0, kMaxRuns));
    run.ms = row.ms();
    run.host_ms = row.ms();
    run.before_bytes = row.bytes();
    run.own_bytes = row.bytes();
    run.writes_outside = row.integer(0, 1) == 1;
    run.reads = row.indices(values.size());
    run.makes = row.indices(values.size());
    run.writes = row.indices(values.size());
    run.saves = row.indices(saved.size());
  }
  for (const auto& cells : saved) {
    Row row(cells, "costs.saved", kSavedColumns.size());
    RecordedStepCosts::Saved& one = costs.saved.emplace_back();
    one.value = row.index(values.size());
    one.run = row.index(runs.size());
  }
  for (const auto& cells : moments) {
    Row row(cells, "costs.moments", kMomentColumns.size());
    RecordedStepCosts::Moment& moment = costs.moments.emplace_back();
    moment.kind = static_cast<RecordedStepCosts::Moment::Kind>(row.integer(0, 1));
    moment.saved = row.index(saved.size());
    moment.ms = row.ms();
    moment.host_ms = row.ms();
    moment.before_bytes = row.bytes();
    moment.peak_bytes = row.bytes();
  }
  object.read("gradient_bytes", costs.gradient_bytes, 0);
  if (std::ranges::any_of(costs.gradient_bytes, [](int64_t bytes) { return bytes > kMaxBytes; }))
    throw UsageError("costs.gradient_bytes has more than any machine");
  if (!costs.gradient_bytes.empty() && costs.gradient_bytes.size() != moments.size() + 1)
    throw UsageError("costs.gradient_bytes must be " + std::to_string(moments.size() + 1) + ", or none");
  check_order(costs);
  if (const auto* issue = object.find("issue")) read_issue(*issue, costs);
  if (const auto* states = object.find("states")) read_states(*states, costs.states);
  if (version < kShardedVersion) return;
  object.require({"sharding"});
  read_sharding(*object.find("sharding"), costs);
}

}  // namespace memtune::plan
