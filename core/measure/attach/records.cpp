#include "core/measure/attach/records.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/utf8.h"
#include "core/record/trace/bounds.h"

namespace memtune::attach {
namespace {

using nlohmann::json;

constexpr int64_t kLatest = int64_t{1} << 60;           // in ns: sums and differences of a few do not overflow
constexpr int64_t kMaxRecordBytes = int64_t{64} << 20;  // of one process's file: a thousand times what steps need
constexpr int64_t kMaxRanks = 1 << 20, kMaxTracedSteps = 1 << 20;
constexpr size_t kFailedAllocations = 16, kMaxParts = 64, kMaxText = 1200, kMaxHeld = 8;  // more than the shim writes
constexpr size_t kMaxMoments = 4000;

std::optional<double> ms_in(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || found->is_null()) return std::nullopt;
  return number_at(line, key, 0, kMaxFigure);
}

int64_t whole_in(const json& line, const char* key, int64_t most = kMaxCount) {
  return line.contains(key) ? whole_at(line, key, 0, most) : 0;
}

std::vector<int64_t> wholes_in(const json& line, const char* key) {
  std::vector<int64_t> values;
  if (line.contains(key))
    for (const json& value : line.at(key)) values.push_back(whole(value, 0));
  return values;
}

std::vector<double> losses_in(const json& line, const char* key) {
  std::vector<double> values;
  if (line.contains(key))
    for (const json& value : line.at(key)) values.push_back(number_or_nan(value));
  return values;
}

MeasurementPhase parse_phase(const std::string& word) {
  if (word == "warmup") return MeasurementPhase::warmup;
  if (word == "measured") return MeasurementPhase::measured;
  if (word == "between") return MeasurementPhase::between;
  if (word == "traced") return MeasurementPhase::traced;
  throw UsageError("unknown phase");
}

constexpr int64_t kMaxWorkers = 1 << 16;

std::optional<result::TrainingPhaseTimeShares> read_shares(const json& line) {
  if (!line.contains("shares") || line.at("shares").is_null()) return std::nullopt;
  result::TrainingPhaseTimeShares parts;
  for (const result::TimeShareNameAndMemberPointer& kind : result::kTimeKinds)
    parts.*kind.share = number_at(line.at("shares"), kind.name, 0, kMaxFigure);
  if (!line.at("workers").is_null()) parts.loader_workers = whole_at(line, "workers", 0, kMaxWorkers);
  parts.evaluates = line.value("evaluates", false);
  parts.unfused = line.value("unfused", false);
  parts.trainer = line.value("trainer", "");
  return parts;
}

// The number must be higher than that of the step before.
StepRecord read_step(const json& line, const std::vector<StepRecord>& before) {
  StepRecord step;
  step.number = whole_at(line, "step", before.empty() ? 1 : before.back().number + 1);
  step.phase = parse_phase(line.at("phase"));
  step.ms = ms_in(line, "ms");
  step.optimizer_ms = ms_in(line, "optimizer_ms");
  step.save_ms = ms_in(line, "save_ms").value_or(0);
  step.skipped = line.value("skipped", false);
  step.allocated_bytes = whole_in(line, "allocated", kMaxBytes);
  step.reserved_bytes = whole_in(line, "reserved", kMaxBytes);
  step.device_bytes = whole_in(line, "device", kMaxBytes);
  step.held_bytes = whole_in(line, "held", kMaxBytes);
  step.retries = whole_in(line, "retries");
  step.segments = whole_in(line, "segments");
  step.losses = losses_in(line, "loss");
  step.unscaled = losses_in(line, "unscaled");
  step.outside_ms = ms_in(line, "outside_ms").value_or(0);
  step.wait_ms = ms_in(line, "wait_ms").value_or(0);
  step.parts_ms = read_shares(line);
  step.without_gradients = whole_in(line, "without_gradients");
  step.batches = whole_in(line, "batches");
  step.rows = wholes_in(line, "rows");
  step.tokens = wholes_in(line, "tokens");
  step.positions = wholes_in(line, "positions");
  if (step.rows.size() != step.tokens.size() || step.rows.size() != step.positions.size())
    throw UsageError("each backward has all of them");
  return step;
}

void read_process(const json& line, TrainingProcessRecords& to) {
  to.pid = whole_at(line, "pid");
  to.rank = whole_at(line, "rank", 0, kMaxRanks);
  to.world = whole_at(line, "world", 1, kMaxRanks);
  to.cuda = line.at("cuda");
  to.device = line.at("device");
  to.torch = line.at("torch");
  to.python = line.at("python");
  to.dtype = line.value("dtype", "");
  if (line.contains("data") && !line.at("data").is_null()) to.data = any_whole(line.at("data"));
}

StepPeriodicityRecord read_period(const json& line, int64_t steps) {
  StepPeriodicityRecord record{whole_in(line, "steps", steps), wholes_in(line, "differing")};
  if (record.differing.empty() || std::ranges::max(record.differing) > steps) throw UsageError("no step differs");
  return record;
}

ParametersWithoutGradientRecord read_gradients(const json& line) {
  ParametersWithoutGradientRecord record{whole_at(line, "trained", 1), 0, {}};
  record.without = whole_at(line, "without", 1, record.trained);
  line.at("names").get_to(record.names);
  return record;
}

template <typename Enum>
Enum parse_word(std::initializer_list<std::pair<const char*, Enum>> words, const std::string& word) {
  for (const auto& [name, value] : words)
    if (word == name) return value;
  throw UsageError("unknown word");
}

trace::TraceRegionLevel parse_region_kind(const std::string& word) {
  using enum trace::TraceRegionLevel;
  return parse_word<trace::TraceRegionLevel>(
      {{"step", step}, {"phase", phase}, {"before_blocks", before_blocks}, {"block", block}, {"head", head}}, word);
}

trace::Pass parse_pass(const std::string& word) {
  using enum trace::Pass;
  return parse_word<trace::Pass>(
      {{"forward", forward}, {"backward", backward}, {"recompute", recompute}, {"optimizer", optimizer}}, word);
}

int64_t time_in(const json& line) { return whole(line, 0, kLatest); }

RegionSpan read_region(const json& line, size_t blocks) {
  RegionSpan record;
  record.region = {parse_region_kind(line.at(0)), parse_pass(line.at(1)), whole_int(line.at(2))};
  record.start_ns = time_in(line.at(3));
  record.end_ns = time_in(line.at(4));
  const bool block = record.region.kind == trace::TraceRegionLevel::block;
  const int64_t least = block ? 0 : trace::kNoBlock, most = block ? static_cast<int64_t>(blocks) - 1 : trace::kNoBlock;
  if (record.region.block < least || record.region.block > most || record.end_ns < record.start_ns)
    throw UsageError("no region");
  return record;
}

// Accepts a file name only, no path.
std::string plain_name(std::string name) { return name.find('/') == std::string::npos ? name : ""; }

KernelTraceFileAndRegionSpans read_trace_record(const json& line) {
  KernelTraceFileAndRegionSpans record;
  record.file = plain_name(line.at("file"));
  record.steps = whole_at(line, "steps", 1, kMaxTracedSteps);
  record.start_ns = time_in(line.at("start_ns"));
  line.at("blocks").get_to(record.blocks);
  for (const json& region : line.at("regions")) record.regions.push_back(read_region(region, record.blocks.size()));
  return record;
}

int64_t bytes_at(const json& line, const char* key) { return whole_at(line, key, 0, kMaxBytes); }

std::string text_at(const json& line, const char* key) {
  std::string text = line.at(key);
  if (text.size() > kMaxText) throw UsageError(std::string(key) + ": too long");
  return text;
}

const json& parts_at(const json& line, const char* key) {
  const json& parts = line.at(key);
  if (!parts.is_array() || parts.size() > kMaxParts) throw UsageError(std::string(key) + ": no list of parts");
  return parts;
}

result::OomBatchRowsAndTokens read_batch(const json& sizes) {
  return {whole(sizes.at(0), 0), whole(sizes.at(1), 0), whole(sizes.at(2), 0)};
}

result::AllocatingSourceLine read_memory_line(const json& line) {
  return {text_at(line, "file"), whole_at(line, "line", 0), text_at(line, "function"), text_at(line, "inner"),
          text_at(line, "text"), bytes_at(line, "bytes"),   whole_at(line, "count", 1)};
}

StepEndMemoryBreakdown read_held(const json& line) {
  StepEndMemoryBreakdown held;
  held.step = whole_at(line, "step", 1);
  held.parameters_bytes = bytes_at(line, "parameters");
  held.gradients_bytes = bytes_at(line, "gradients");
  held.optimizer_bytes = bytes_at(line, "states");
  held.buffers_bytes = bytes_at(line, "buffers");
  held.rest_bytes = bytes_at(line, "rest");
  for (const json& each : parts_at(line, "lines")) held.lines.push_back(read_memory_line(each));
  return held;
}

OutOfMemoryRecord read_out_of_memory(const json& line) {
  OutOfMemoryRecord record;
  record.time_s = number_at(line, "time_s", 0, kMaxFigure);
  result::OutOfMemoryBreakdown& to = record.figures;
  to.device = whole_at(line, "device", 0, kMaxRanks);
  to.step = whole_at(line, "step", 1);
  to.phase = result::parse_memory_phase(line.at("phase"));
  to.evaluating = line.at("evaluating");
  to.expandable = line.at("expandable");
  to.stacks = line.at("stacks");
  to.requested_bytes = bytes_at(line, "requested");
  to.limit_bytes = bytes_at(line, "limit");
  to.total_bytes = bytes_at(line, "total");
  to.free_bytes = bytes_at(line, "free");
  to.reserved_bytes = bytes_at(line, "reserved");
  to.allocated_bytes = whole_at(line, "allocated", 0, to.reserved_bytes);
  if (!line.at("others").is_null()) to.other_processes_bytes = bytes_at(line, "others");
  to.batch = read_batch(line.at("batch"));
  to.largest_batch = read_batch(line.at("largest"));
  for (const json& bytes : parts_at(line, "held")) to.held_after_steps.push_back(whole(bytes, 0, kMaxBytes));
  for (const json& amount : parts_at(line, "amounts")) to.amount_of_steps.push_back(whole(amount, 0));
  for (const json& bytes : parts_at(line, "held_runs")) to.held_before_runs.push_back(whole(bytes, 0, kMaxBytes));
  to.start_bytes = bytes_at(line, "start");
  to.runs = whole_at(line, "runs", 0);
  to.usual_runs = whole_at(line, "usual_runs", 0);
  to.where = read_memory_line(line.at("where"));
  to.trainer = text_at(line, "trainer");
  if (!line.contains("rest")) return record;  // who holds the memory could not be read
  to.parameters_bytes = bytes_at(line, "parameters");
  to.gradients_bytes = bytes_at(line, "gradients");
  to.optimizer_bytes = bytes_at(line, "states");
  to.buffers_bytes = bytes_at(line, "buffers");
  to.rest_bytes = bytes_at(line, "rest");
  to.checkpointed = line.at("checkpointed");
  for (const json& model : parts_at(line, "models"))
    to.models.push_back({text_at(model, "name"), bytes_at(model, "bytes"), model.at("trained").get<bool>(),
                         model.at("with_gradients").get<bool>()});
  for (const json& each : parts_at(line, "lines")) to.lines.push_back(read_memory_line(each));
  return record;
}

MemoryCurvePoint read_moment(const json& row) {
  MemoryCurvePoint moment{time_in(row.at(0)), whole(row.at(1), 0, trace::kMaxHeldBytes)};
  if (row.size() != 2 + result::kMemoryKinds) throw UsageError("curve: no bytes of all kinds");
  for (size_t i = 0; i < result::kMemoryKinds; ++i) moment.by_kind[i] = whole(row.at(2 + i), 0, trace::kMaxHeldBytes);
  return moment;
}

TracedStepMemoryRecord read_step_memory(const json& line) {
  TracedStepMemoryRecord record;
  result::StepMemoryBreakdown& to = record.figures;
  to.step = whole_at(line, "step", 1);
  to.device = whole_at(line, "device", 0, kMaxRanks);
  to.saved_only = line.at("saved");
  to.complete = line.at("complete");
  to.stacks = line.at("stacks");
  to.phase = result::parse_memory_phase(line.at("phase"));
  to.measured_bytes = bytes_at(line, "measured");
  for (const json& each : parts_at(line, "owners"))
    to.owners.push_back({result::parse_memory_kind(each.at("kind")), bytes_at(each, "before"), bytes_at(each, "peak"),
                         bytes_at(each, "end")});
  for (const json& each : parts_at(line, "lines")) to.lines.push_back(read_memory_line(each));
  for (const json& each : parts_at(line, "modules"))
    to.modules.push_back(
        {text_at(each, "name"), bytes_at(each, "bytes"), bytes_at(each, "activations"), whole_at(each, "count", 1)});
  check(to);
  record.file = plain_name(line.at("file"));
  const json& curve = line.at("curve");
  if (curve.size() > kMaxMoments) throw UsageError("curve: too many moments");
  for (const json& row : curve) {
    record.curve.push_back(read_moment(row));
    if (record.curve.size() > 1 && record.curve.back().time_ns < (record.curve.end() - 2)->time_ns)
      throw UsageError("curve: not in order of time");
  }
  return record;
}

void read_record(const std::string& kind, const json& line, TrainingProcessRecords& to) {
  if (kind == "process") read_process(line, to);
  if (kind == "step") to.steps.push_back(read_step(line, to.steps));
  if (kind == "save")
    to.saves.push_back({whole_at(line, "step", 0), ms_in(line, "ms").value_or(0), whole_in(line, "bytes", kMaxBytes)});
  if (kind == "note" && to.notes.size() < 20) to.notes.push_back(line.at("text"));
  if (kind == "done") to.done = true;
  if (kind == "exception") {
    to.exception_type = line.at("type");
    to.exception_text = line.at("text");
    to.exception_s = ms_in(line, "time_s").value_or(0);
    to.pinned_bytes = whole_in(line, "pinned", kMaxBytes);
    to.free_bytes = whole_in(line, "free", kMaxBytes);
  }
  if (kind == "oom") {
    if (to.failed_allocations.size() == kFailedAllocations) to.failed_allocations.pop_back();
    to.failed_allocations.push_back(read_out_of_memory(line));
  }
  if (kind == "held" && to.held.size() < kMaxHeld) to.held.push_back(read_held(line));
  if (kind == "plan") {
    to.planned = line.at("applied");
    if (!to.planned) to.plan_error = line.at("reason");
  }
  if (kind == "trace") to.trace = read_trace_record(line);
  if (kind == "memory") to.memory = read_step_memory(line);
  if (kind == "period") to.period = read_period(line, static_cast<int64_t>(to.steps.size()));
  if (kind == "gradients") to.gradients = read_gradients(line);
}

void read_line(const std::string& text, TrainingProcessRecords& to) try {
  const json line = parse_json(text);
  const std::string kind = line.at("record");
  try {
    read_record(kind, line, to);
  } catch (const std::exception& why) {
    if (to.refused.empty()) to.refused = "a record of kind " + shorten(printable(kind), 20) + ": " + why.what();
  }
} catch (const std::exception&) {  // incomplete, or written by the script
}

}  // namespace

bool RecordFolderReader::poll() try {
  bool more = false;
  for (const std::string& name : names_in(path_, files_)) {
    python_ |= name == "python";
    torch_ |= name == "torch";
    if (!name.ends_with(".jsonl") || std::ranges::find(tails_, name, &Tail::name) != tails_.end()) continue;
    tails_.push_back({name, 0, ""});
    processes_.emplace_back();
  }
  for (size_t i = 0; i < tails_.size(); ++i) more |= read(tails_[i], processes_[i]);
  return more;
} catch (const IoError&) {  // the command removed the folder
  return false;
}

bool RecordFolderReader::read(Tail& tail, TrainingProcessRecords& records) try {
  const RandomAccessFileReader file(path_ / tail.name, files_);
  const int64_t count = std::min(file.size(), kMaxRecordBytes) - tail.read_bytes;
  if (count <= 0) return false;
  std::string bytes(static_cast<size_t>(count), '\0');
  file.read(bytes.data(), count, tail.read_bytes);
  tail.read_bytes += count;
  tail.line += bytes;
  size_t start = 0;
  for (size_t end; (end = tail.line.find('\n', start)) != std::string::npos; start = end + 1)
    read_line(tail.line.substr(start, end - start), records);
  tail.line.erase(0, start);
  return true;
} catch (const IoError&) {  // gone, or not a file
  return false;
}

}  // namespace memtune::attach
