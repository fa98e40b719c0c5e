#include "core/record/measurement/trial_measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <type_traits>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/median.h"
#include "core/base/text.h"

namespace memtune::result {
namespace {

using Json = nlohmann::json;

// In the order of Outcome.
const std::vector<std::string>& outcome_names() {
  static const std::vector<std::string> names = {"ok",      "device_oom",  "host_oom", "disk_full", "disk_error",
                                                 "corrupt", "timeout",     "crash",    "nan",       "mismatch",
                                                 "error",   "interrupted", "killed",   "skipped"};
  return names;
}

// Fixed seed: equal samples give equal intervals on every machine.
std::vector<double> bootstrap_medians(const std::vector<double>& sorted) {
  constexpr size_t kResamples = 2001;
  std::mt19937_64 random(20240229);
  std::vector<double> medians(kResamples), resample(sorted.size());
  for (double& each : medians) {
    for (double& value : resample) value = sorted[random() % sorted.size()];
    each = median(resample);
  }
  std::sort(medians.begin(), medians.end());
  return medians;
}

// Defines the JSON names once for both directions, as visit(key, member).
template <typename Visit>
void fields(StepTimeStats& time, Visit visit) {
  visit("median", time.median);
  visit("low", time.low);
  visit("high", time.high);
  visit("samples", time.samples);
}

template <typename Visit>
void fields(StepPeriodicity& period, Visit visit) {
  visit("steps", period.steps);
  visit("median_ms", period.median_ms);
  visit("longest_ms", period.longest_ms);
}

template <typename Visit>
void fields(SettingInTrainerSyntax& words, Visit visit) {
  visit("setting", words.setting);
  visit("text", words.text);
}

template <typename Visit>
void fields(TrainingPhaseTimeShares& shares, Visit visit) {
  for (const TimeShareNameAndMemberPointer& kind : kTimeKinds) visit(kind.name, shares.*kind.share);
  visit("loader_workers", shares.loader_workers);
  visit("evaluates", shares.evaluates);
  visit("unfused", shares.unfused);
  visit("trainer", shares.trainer);
  visit("words", shares.words);
}

template <typename Visit>
void fields(TrialRoundTimesAndMachineLoad& round, Visit visit) {
  visit("step_ms", round.step_ms);
  visit("base", round.base);
  visit("base_ms", round.base_ms);
  visit("load", round.load);
  visit("other_cores", round.other_cores);
  visit("cores", round.cores);
  visit("gpu_processes", round.gpu_processes);
  visit("loss", round.loss);
}

template <typename Visit>
void fields(PeakMemory& peak, Visit visit) {
  visit("allocated", peak.allocated);
  visit("reserved", peak.reserved);
  visit("device", peak.device);
}

template <typename Visit>
void fields(StepHostDeviceCopyStats& transfer, Visit visit) {
  visit("out_bytes", transfer.out_bytes);
  visit("in_bytes", transfer.in_bytes);
  visit("disk_write_bytes", transfer.disk_write_bytes);
  visit("disk_read_bytes", transfer.disk_read_bytes);
  visit("hidden", transfer.hidden);
  visit("exposed_ms", transfer.exposed_ms);
  visit("out_gb_per_s", transfer.out_gb_per_s);
  visit("in_gb_per_s", transfer.in_gb_per_s);
  visit("link_out_gb_per_s", transfer.link_out_gb_per_s);
  visit("link_in_gb_per_s", transfer.link_in_gb_per_s);
}

template <typename Visit>
void fields(CommunicationStats& communication, Visit visit) {
  visit("gathered_bytes", communication.gathered_bytes);
  visit("reduced_bytes", communication.reduced_bytes);
  visit("exposed_ms", communication.exposed_ms);
  visit("collectives_ms", communication.collectives_ms);
}

template <typename Visit>
void fields(OffloadStallTimes& stalls, Visit visit) {
  visit("room_ms", stalls.room_ms);
  visit("disk_ms", stalls.disk_ms);
  visit("copy_ms", stalls.copy_ms);
}

template <typename Visit>
void fields(GradientComparison& gradients, Visit visit) {
  visit("compared", gradients.compared);
  visit("equal", gradients.equal);
  visit("max_abs_difference", gradients.max_abs_difference);
  visit("worst", gradients.worst);
  visit("against", gradients.against);
  visit("undecided", gradients.undecided);
}

template <typename Visit>
void fields(LossComparison& losses, Visit visit) {
  visit("compared", losses.compared);
  visit("changed", losses.changed);
  visit("step", losses.step);
  visit("loss", losses.loss);
  visit("expected", losses.expected);
  visit("allowed", losses.allowed);
  visit("against", losses.against);
  visit("without_gradient", losses.without_gradient);
}

template <typename Visit>
void fields(RankMeasurement& share, Visit visit) {
  visit("rank", share.rank);
  visit("step_ms", share.step_ms);
  visit("peak_bytes", share.peak_bytes);
  visit("optimizer_ms", share.optimizer_ms);
  visit("exposed_communication_ms", share.exposed_communication_ms);
  visit("loss", share.loss);
}

template <typename Visit>
void fields(AllocatingSourceLine& line, Visit visit) {
  visit("file", line.file);
  visit("line", line.line);
  visit("function", line.function);
  visit("inner", line.inner);
  visit("text", line.text);
  visit("bytes", line.bytes);
  visit("count", line.count);
}

template <typename Visit>
void fields(OomBatchRowsAndTokens& batch, Visit visit) {
  visit("rows", batch.rows);
  visit("tokens", batch.tokens);
  visit("positions", batch.positions);
}

template <typename Visit>
void fields(OomLoadedModel& model, Visit visit) {
  visit("name", model.name);
  visit("bytes", model.bytes);
  visit("trained", model.trained);
  visit("with_gradients", model.with_gradients);
}

template <typename Visit>
void fields(OutOfMemoryBreakdown& oom, Visit visit) {
  visit("device", oom.device);
  visit("step", oom.step);
  visit("phase", oom.phase);
  visit("evaluating", oom.evaluating);
  visit("expandable", oom.expandable);
  visit("checkpointed", oom.checkpointed);
  visit("stacks", oom.stacks);
  visit("requested_bytes", oom.requested_bytes);
  visit("limit_bytes", oom.limit_bytes);
  visit("total_bytes", oom.total_bytes);
  visit("free_bytes", oom.free_bytes);
  visit("allocated_bytes", oom.allocated_bytes);
  visit("reserved_bytes", oom.reserved_bytes);
  visit("other_processes_bytes", oom.other_processes_bytes);
  visit("parameters_bytes", oom.parameters_bytes);
  visit("gradients_bytes", oom.gradients_bytes);
  visit("optimizer_bytes", oom.optimizer_bytes);
  visit("buffers_bytes", oom.buffers_bytes);
  visit("rest_bytes", oom.rest_bytes);
  visit("start_bytes", oom.start_bytes);
  visit("runs", oom.runs);
  visit("usual_runs", oom.usual_runs);
  visit("batch", oom.batch);
  visit("largest_batch", oom.largest_batch);
  visit("held_after_steps", oom.held_after_steps);
  visit("amount_of_steps", oom.amount_of_steps);
  visit("held_before_runs", oom.held_before_runs);
  visit("models", oom.models);
  visit("lines", oom.lines);
  visit("where", oom.where);
  visit("trainer", oom.trainer);
  visit("words", oom.words);
}

template <typename Visit>
void fields(MemoryGrowth& growth, Visit visit) {
  visit("steps", growth.steps);
  visit("bytes_per_step", growth.bytes_per_step);
  visit("low", growth.low);
  visit("high", growth.high);
  visit("bytes_per_position", growth.bytes_per_position);
  visit("grows", growth.grows);
  visit("owner", growth.owner);
  visit("line", growth.line);
}

template <typename Visit>
void fields(StepMemoryOfCategory& owner, Visit visit) {
  visit("kind", owner.kind);
  visit("before_bytes", owner.before_bytes);
  visit("peak_bytes", owner.peak_bytes);
  visit("end_bytes", owner.end_bytes);
}

template <typename Visit>
void fields(SameNamedModulesPeakMemory& module, Visit visit) {
  visit("name", module.name);
  visit("bytes", module.bytes);
  visit("saved_bytes", module.saved_bytes);
  visit("count", module.count);
}

template <typename Visit>
void fields(StepMemoryBreakdown& memory, Visit visit) {
  visit("step", memory.step);
  visit("device", memory.device);
  visit("saved_only", memory.saved_only);
  visit("complete", memory.complete);
  visit("stacks", memory.stacks);
  visit("phase", memory.phase);
  visit("measured_bytes", memory.measured_bytes);
  visit("owners", memory.owners);
  visit("lines", memory.lines);
  visit("modules", memory.modules);
  visit("paths", memory.paths);
}

template <typename Visit>
void fields(TrialMeasurement& measurement, Visit visit) {
  visit("strategy", measurement.strategy);
  visit("outcome", measurement.outcome);
  visit("reason", measurement.reason);
  visit("equal_to", measurement.equal_to);
  visit("no_effect", measurement.no_effect);
  visit("step_ms", measurement.step_ms);
  visit("period", measurement.period);
  visit("time_shares", measurement.time_shares);
  visit("rounds", measurement.rounds);
  visit("noisy", measurement.noisy);
  visit("peak_bytes", measurement.peak_bytes);
  visit("cap_bytes", measurement.cap_bytes);
  visit("allocator", measurement.allocator);
  visit("fragmented", measurement.fragmented);
  visit("oom", measurement.oom);
  visit("memory", measurement.memory);
  visit("allocator_retries", measurement.allocator_retries);
  visit("allocator_segments", measurement.allocator_segments);
  visit("growth", measurement.growth);
  visit("floor_bytes", measurement.floor_bytes);
  visit("host_bytes", measurement.host_bytes);
  visit("host_peak_bytes", measurement.host_peak_bytes);
  visit("disk_peak_bytes", measurement.disk_peak_bytes);
  visit("samples_per_s", measurement.samples_per_s);
  visit("tokens_per_s", measurement.tokens_per_s);
  visit("transfer", measurement.transfer);
  visit("communication", measurement.communication);
  visit("stalls", measurement.stalls);
  visit("recomputed_ops", measurement.recomputed_ops);
  visit("recomputed_bytes", measurement.recomputed_bytes);
  visit("recompute_ms", measurement.recompute_ms);
  visit("engine_ms", measurement.engine_ms);
  visit("loss", measurement.loss);
  visit("loss_per_backward", measurement.loss_per_backward);
  visit("loss_unscaled", measurement.loss_unscaled);
  visit("trained_tensors", measurement.trained_tensors);
  visit("tensors_without_gradient", measurement.tensors_without_gradient);
  visit("gradients", measurement.gradients);
  visit("losses", measurement.losses);
  visit("optimizer_ms", measurement.optimizer_ms);
  visit("ranks", measurement.ranks);
  visit("profiler_overhead", measurement.profiler_overhead);
  visit("dtype", measurement.dtype);
  visit("emulated", measurement.emulated);
  visit("device", measurement.device);
  visit("plan", measurement.plan);
  visit("trace", measurement.trace);
}

Json encode(bool value) { return value; }
Json encode(int64_t value) { return value; }
Json encode(TrialOutcome outcome) { return to_string(outcome); }
Json encode(PeakMemoryTrainingPhase phase) { return to_string(phase); }
Json encode(StepMemoryCategory kind) { return to_string(kind); }

// JSON has no NaN: null stands for numbers that are not finite or exceed what readers accept.
Json encode(double value) { return std::abs(value) <= kMaxNumber ? Json(value) : Json(nullptr); }

Json encode(std::optional<int64_t> value) { return value ? Json(*value) : Json(nullptr); }

Json encode(const std::vector<double>& values) {
  Json array = Json::array();
  for (const double value : values) array.push_back(encode(value));
  return array;
}

Json encode(const std::vector<int64_t>& values) { return values; }

Json encode(const std::vector<std::vector<double>>& lists) {
  Json array = Json::array();
  for (const std::vector<double>& list : lists) array.push_back(encode(list));
  return array;
}

// Reasons quote output of crashed processes, which may end inside a character. dump() would throw on that.
Json encode(const std::string& any) {
  return parse_json(Json(any).dump(-1, ' ', false, Json::error_handler_t::replace));
}

template <typename Part>
requires std::is_aggregate_v<Part> Json encode(std::vector<Part>& parts);

template <typename Part>
requires std::is_aggregate_v<Part> Json encode(std::optional<Part>& part);

template <typename Object>
requires std::is_aggregate_v<Object> Json encode(Object& object) {
  Json json = Json::object();
  fields(object, [&](const char* key, auto& member) { json[key] = encode(member); });
  return json;
}

void decode(const Json& json, bool& value) { json.get_to(value); }
void decode(const Json& json, int64_t& value) { value = whole(json); }
void decode(const Json& json, std::string& value) { json.get_to(value); }
void decode(const Json& json, TrialOutcome& outcome) { outcome = parse_outcome(json.get<std::string>()); }
void decode(const Json& json, PeakMemoryTrainingPhase& phase) { phase = parse_memory_phase(json.get<std::string>()); }
void decode(const Json& json, StepMemoryCategory& kind) { kind = parse_memory_kind(json.get<std::string>()); }

void decode(const Json& json, double& value) {
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : number(json);
}

void decode(const Json& json, std::optional<int64_t>& value) {
  value = json.is_null() ? std::nullopt : std::optional(whole(json));
}

void decode(const Json& json, std::vector<double>& values) {
  values.clear();
  for (const Json& element : json) decode(element, values.emplace_back());
}

void decode(const Json& json, std::vector<int64_t>& values) {
  values.clear();
  for (const Json& element : json) values.push_back(whole(element));
}

void decode(const Json& json, std::vector<std::vector<double>>& lists) {
  lists.clear();
  for (const Json& list : json) decode(list, lists.emplace_back());
}

template <typename Part>
requires std::is_aggregate_v<Part>
void decode(const Json& json, std::vector<Part>& parts);

template <typename Part>
requires std::is_aggregate_v<Part>
void decode(const Json& json, std::optional<Part>& part);

template <typename Object>
requires std::is_aggregate_v<Object>
void decode(const Json& json, Object& object);

// The model, not time, determines the size of losses and gradients, so these have no general bound.
bool is_figure(std::string_view key) {
  constexpr std::string_view kOfModel[] = {"loss",     "loss_per_backward", "loss_unscaled",
                                           "expected", "allowed",           "max_abs_difference"};
  return std::ranges::find(kOfModel, key) == std::end(kOfModel);
}

bool is_beyond(const double value) { return std::abs(value) > kMaxFigure; }
bool is_beyond(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return is_beyond(value); });
}
template <typename Other>
bool is_beyond(const Other&) {
  return false;
}

// Errors name the field.
template <typename Member>
void decode(const char* key, const Json& json, Member& member) try {
  decode(json, member);
  if (is_figure(key) && is_beyond(member)) throw UsageError(std::string(key) + ": more than any time or rate");
} catch (const Json::exception& why) {
  throw UsageError(std::string(key) + ": " + why.what());
}

// A missing key keeps the member's default.
template <typename Object>
requires std::is_aggregate_v<Object>
void decode(const Json& json, Object& object) {
  const auto& members = json.get_ref<const Json::object_t&>();
  fields(object, [&](const char* key, auto& member) {
    if (const auto found = members.find(key); found != members.end()) decode(key, found->second, member);
  });
}

template <typename Part>
requires std::is_aggregate_v<Part> Json encode(std::vector<Part>& parts) {
  Json array = Json::array();
  for (Part& part : parts) array.push_back(encode(part));
  return array;
}

template <typename Part>
requires std::is_aggregate_v<Part> Json encode(std::optional<Part>& part) {
  return part ? encode(*part) : Json(nullptr);
}

template <typename Part>
requires std::is_aggregate_v<Part>
void decode(const Json& json, std::optional<Part>& part) {
  part.reset();
  if (!json.is_null()) decode(json, part.emplace());
}

template <typename Part>
requires std::is_aggregate_v<Part>
void decode(const Json& json, std::vector<Part>& parts) {
  parts.clear();
  for (const Json& element : json) decode(element, parts.emplace_back());
}

}  // namespace

std::string to_string(TrialOutcome outcome) { return outcome_names().at(static_cast<size_t>(outcome)); }

TrialOutcome parse_outcome(const std::string& text) {
  const auto& names = outcome_names();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw UsageError(unknown_name("outcome", text, names));
  return static_cast<TrialOutcome>(found - names.begin());
}

StepTimeStats summarize(std::vector<double> samples_ms) {
  StepTimeStats time;
  time.samples = std::move(samples_ms);
  std::vector<double> sorted = time.samples;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return time;
  time.median = median(sorted);
  // For two samples the interval is both: each is the resampled median in a quarter of the cases.
  const std::vector<double> medians = sorted.size() <= 2 ? sorted : bootstrap_medians(sorted);
  const double last = static_cast<double>(medians.size() - 1);
  time.low = medians[static_cast<size_t>(std::floor(0.025 * last))];
  time.high = medians[static_cast<size_t>(std::ceil(0.975 * last))];
  return time;
}

double spread(const StepTimeStats& time) {
  if (time.samples.empty() || time.median <= 0) return 0;
  const auto [low, high] = std::minmax_element(time.samples.begin(), time.samples.end());
  return (*high - *low) / time.median;
}

bool is_noisy(const StepTimeStats& time) { return spread(time) > 0.05; }

int64_t required_bytes(const TrialMeasurement& m) {
  return m.peak_bytes.device > 0 ? m.peak_bytes.device : m.peak_bytes.allocated;
}

std::string required_text(const TrialMeasurement& m) {
  return format_bytes(required_bytes(m)) + (m.peak_bytes.device > 0 ? " on the device" : " at the peak");
}

void to_json(Json& json, const TrialMeasurement& measurement) {
  TrialMeasurement visited = measurement;
  json = encode(visited);
  if (!measurement.oom) json.erase("oom");
  if (!measurement.growth) json.erase("growth");
  if (!measurement.memory) json.erase("memory");
  if (!measurement.time_shares) json.erase("time_shares");
}

void from_json(const Json& json, TrialMeasurement& measurement) {
  try {
    TrialMeasurement read;
    decode(json.at("strategy"), read.strategy);
    decode(json.at("outcome"), read.outcome);
    decode(json, read);
    if (read.memory) check(*read.memory);
    if (read.time_shares)
      for (const TimeShareNameAndMemberPointer& kind : kTimeKinds)
        if (const double share = (*read.time_shares).*kind.share; !(share >= 0 && share <= 1))
          throw UsageError("this JSON is not a measurement: time_shares: " + std::string(kind.name));
    measurement = std::move(read);
  } catch (const Json::exception& error) {
    throw UsageError("this JSON is not a measurement: " + std::string(error.what()));
  }
}

}  // namespace memtune::result
