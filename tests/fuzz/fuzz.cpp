// All parsers of memtune as libFuzzer targets:
//
//   memtune-fuzz --parser=NAME [libFuzzer's options] [CORPUS]
//
// Whatever a parser accepts is passed to the code that reads it next. An Error of memtune is a correct result. Any
// other exception and any report of a sanitizer is a bug.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/answer/findings/findings.h"
#include "core/answer/report/chart/memory_chart.h"
#include "core/answer/report/html/html.h"
#include "core/answer/report/interchange/memory_snapshot.h"
#include "core/answer/report/interchange/perfetto.h"
#include "core/answer/report/text/csv.h"
#include "core/answer/report/text/diff_text.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/markdown.h"
#include "core/answer/report/text/pareto_plot.h"
#include "core/answer/report/text/table.h"
#include "core/answer/result/diff.h"
#include "core/answer/result/loss_comparison.h"
#include "core/answer/result/merge_ranks.h"
#include "core/answer/result/rounds.h"
#include "core/answer/result/save_interval.h"
#include "core/answer/run/run_directory.h"
#include "core/answer/trainer/config_check.h"
#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/answer/trainer/python_plan_data.h"
#include "core/answer/trainer/toml_text.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/answer/trainer/trainer_profile.h"
#include "core/answer/trainer/yaml_text.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/engine/state/state_manifest.h"
#include "core/measure/attach/records.h"
#include "core/measure/attach/trial_outcome.h"
#include "core/model/adapter/lora_config.h"
#include "core/model/pt2/parsed_pt2_program.h"
#include "core/model/pt2/pickle.h"
#include "core/model/pt2/pt2_archive.h"
#include "core/model/pt2/pt2_sample_input.h"
#include "core/model/safetensors/header.h"
#include "core/model/source/builtin_model_config_and_input_shape.h"
#include "core/model/source/detected_model_format.h"
#include "core/model/transformers/transformers_config.h"
#include "core/plan/facts/machine_profile.h"
#include "core/plan/planner/cost_range_converted_to_other_machine.h"
#include "core/plan/planner/costs_without_recompute.h"
#include "core/plan/planner/planner.h"
#include "core/plan/planner/step_predictor.h"
#include "core/plan/request/reference_file.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/plan/request/trial_request.h"
#include "core/plan/rules/hand_written_plan_file.h"
#include "core/plan/rules/strategy.h"
#include "core/plan/strategy/block_set.h"
#include "core/plan/strategy/strategy.h"
#include "core/record/measurement/overlap.h"
#include "core/record/trace/bounds.h"
#include "core/record/trace/file.h"
#include "core/record/trace/resident_values.h"
#include "core/record/trace/step_device_time_breakdown.h"
#include "core/sweep/directory/sweep_trial_journal.h"
#include "core/sweep/launch/launcher_rank_environment.h"
#include "core/sweep/ranks/rank_traces.h"
#include "core/sweep/trials/trial_output_frame_parser.h"

using namespace memtune;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Files in a folder in memory, with the input as content.
class InputFolder {
 public:
  InputFolder() {
    std::string name = "/dev/shm/memtune-fuzz-XXXXXX";
    if (!mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  ~InputFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path file(const char* name, const std::string& content) const {
    std::FILE* file = std::fopen((path_ / name).c_str(), "wb");
    if (!file || std::fwrite(content.data(), 1, content.size(), file) != content.size()) std::abort();
    std::fclose(file);
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

const InputFolder& folder() {
  static const InputFolder one;
  return one;
}

void print_all(const report::Report& report) {
  report::table(report, {});
  report::csv(report);
  report::markdown(report);
  report::pareto_plot(report, {});
  report::html(report, {});
  report::from_json_text(report::to_json_text(report), "again");
  const std::vector<result::SweepDiffRow> rows = result::diff(report.rows, report.rows);
  report::diff_table(rows);
  report::diff_json(rows);
  findings::variant_findings(report.rows);
  for (const char* name : {"axolotl", "torchtitan"})
    for (const result::TrialResultRow& row : report.rows) try {
        trainer::export_config(name, row, report);
      } catch (const Error&) {
      }
}

// As several ranks, as several rounds, and compared with itself.
void use(const result::TrialMeasurement& measurement) {
  const std::vector<result::TrialMeasurement> ranks(3, measurement);
  const result::TrialMeasurement all = result::merge_ranks(ranks);
  result::ratio_of(measurement, all);
  result::compare_losses(measurement, all);
  result::TrialMeasurement rounds;
  for (size_t round = 0; round < 3; ++round) result::add_round(round, measurement, {}, rounds);
  json(all).dump();
  json(rounds).dump();
}

void use(const result::ResumableTrainingResult& training) {
  const std::vector<result::ResumableTrainingResult> ranks(3, training);
  json(result::merge_ranks(ranks)).dump();
}

void use(const result::StateSaveModeMeasurement& save) {
  const std::vector<result::StateSaveModeMeasurement> ranks(3, save);
  result::advise(result::merge_ranks(ranks), save.step_ms, 3600);
}

template <typename Other>
void use(const Other&) {}

void use(const trace::Trace& trace, const result::TrialMeasurement& measurement) {
  report::perfetto(trace);
  report::memory_snapshot(trace);
  report::memory_chart(trace, int64_t{1} << 34);
  report::peak_text(trace);
  report::tensors_text(trace);
  result::measure_overlap(trace, 3);
  result::measure_collectives(trace, 3);
  trace::find_step_time_breakdown(trace, trace::find_steps(trace));
  for (const trace::TraceEvent& event : trace.events) {
    trace::held_values(trace, event.start_ns);
    if (&event - trace.events.data() == 3) break;
  }
  findings::find(trace, measurement, nullptr);
}

// Corrects the checksums, so that the code after them is reached.
std::string with_right_checks(std::string trace) {
  constexpr size_t kHead = 8, kRecordHead = 8;
  for (size_t at = kHead; at + kRecordHead < trace.size();) {
    uint32_t size = 0;
    std::memcpy(&size, trace.data() + at, sizeof size);
    size = static_cast<uint32_t>(std::min<size_t>(size, trace.size() - at - kRecordHead));
    const auto check = static_cast<uint32_t>(hash64(trace.data() + at + kRecordHead, size, 0));
    std::memcpy(trace.data() + at, &size, sizeof size);
    std::memcpy(trace.data() + at + 4, &check, sizeof check);
    at += kRecordHead + size;
  }
  return trace;
}

result::TrialResultRow small_row() {
  result::TrialResultRow row{{}, false, true, {}, {}};
  row.measurement.strategy = "none";
  row.measurement.step_ms = result::summarize({9, 10, 11});
  row.measurement.peak_bytes = {1 << 30, 1 << 30, 1 << 30};
  return row;
}

// Reads the trace alone, as a trial of a report, and as one of two ranks whose clocks differ.
void read_trace(const std::string& input) {
  const std::string whole = with_right_checks(input);
  const fs::path path = folder().file("trace", whole);
  trace::Trace trace = trace::read_trace(path).trace;
  const result::TrialResultRow row = small_row();
  use(trace, row.measurement);
  report::Report report;
  report.rows = {row};
  const report::TrialWithTraceForMemoryChart traced{&report.rows[0], &trace};
  report::html(report, {&traced, 1});
  trace.start_ns = trace.start_ns > 0 ? 1 : 0;
  trace::write_trace(folder().path() / "rank", trace);
  sweep::merge_rank_traces({path, folder().path() / "rank"}, system_files());
  use(trace::read_trace(path).trace, row.measurement);
}

void read_plan(const std::string& input) { json(parse_json(input).get<plan::Plan>()).dump(); }

plan::ProgramFacts small_facts() {
  plan::ProgramFacts facts;
  facts.owner = {-1};
  for (int i = 0; i < 6; ++i) {
    plan::ProgramOpFacts op;
    op.name = i % 2 == 0 ? "aten::linear" : "aten::silu";
    op.region = "layers." + std::to_string(i / 2);
    op.block = i / 2;
    op.inputs = {i};
    op.outputs = {i + 1};
    op.output_bytes = {1 << 20};
    op.output_saved = {true};
    facts.ops.push_back(op);
    facts.owner.push_back(i);
    if (i % 2 == 0) facts.blocks.push_back({op.region});
  }
  return facts;
}

void read_plan_file(const std::string& input) {
  static const plan::ProgramFacts facts = small_facts();
  plan::HandWrittenPlanFile(folder().file("plan.json", input)).make_plan(facts);
}

void read_profile(const std::string& input) { model::parse_model_profile("profile", input); }

void read_machine(const std::string& input) {
  const plan::MachineProfile machine = plan::parse_machine_profile("machine", input);
  if (json(machine).get<plan::MachineProfile>() != machine) std::abort();
}

void read_transformers(const std::string& input) {
  model::parse_transformers_config("config.json", input, /*text_only=*/true);
}

void read_adapter(const std::string& input) {
  const model::LoraConfig lora = model::parse_lora(folder().file("adapter_config.json", input).string());
  for (const char* path : {"", "a", "layers.1.q_proj", "model.layers.0.x"}) {
    lora.adapts(path, false);
    lora.rank_of(path);
    lora.scale_of(path);
  }
}

void read_model_file(const std::string& input) { model::inspect_model_file(folder().file("model", input)); }

void read_pt2(const std::string& input) {
  const model::ParsedPt2Program program = model::parse_pt2_program(input);
  std::vector<model::InputTensorDescription> inputs;
  for (const model::Pt2Input& one : program.inputs) inputs.push_back(one.described);
  const auto shapes = model::resize(inputs, 0, 0);
  for (size_t i = 0; i < inputs.size(); ++i) model::check_shape(inputs[i], shapes[i]);
  for (const model::Pt2Node& node : program.graph.nodes) model::module_stack(node.modules);
}

void read_pt2_tensors(const std::string& input) {
  for (const model::Pt2TensorEntry& tensor : model::parse_pt2_tensors(input, "data/weights/"))
    model::check_fits(tensor, 48);
}

void read_pt2_samples(const std::string& input) { model::parse_pt2_samples(input); }

void read_pickle(const std::string& input) { model::parse_pickle(input); }

void read_pt2_archive(const std::string& input) {
  model::read_pt2_program(model::Pt2Archive(folder().file("model.pt2", input)));
}

// Accepted costs must be written as they were read, and must allow the simulation of a plan.
void read_costs(const std::string& input) {
  const auto costs = parse_json(input).get<plan::RecordedStepCosts>();
  if (json(costs).get<plan::RecordedStepCosts>() != costs) std::abort();
  plan::ProgramFacts facts;
  int ops = 0;
  for (const plan::RecordedStepCosts::Run& run : costs.runs) ops = std::max(ops, run.op + 1);
  for (const plan::OneOpActivationPlacements& placement : costs.plan.placements)
    ops = std::max(ops, std::min(placement.op, 1000) + 1);
  if (ops > 1000) return;
  facts.owner = {-1};
  facts.blocks = {{"a"}, {"b"}, {"c"}};
  for (int op = 0; op < ops; ++op) {
    facts.ops.push_back({.name = "aten::mul", .block = 3 * op / ops, .inputs = {op}, .outputs = {op + 1}});
    facts.ops.back().output_bytes = {4096};
    facts.ops.back().output_saved = {op % 3 > 0};
    facts.owner.push_back(op);
  }
  plan::Plan plan;
  plan.transfer.min_bytes = plan.saved_min_bytes = 0;
  constexpr plan::TensorPlacement kPlaces[] = {plan::TensorPlacement::recompute, plan::TensorPlacement::host,
                                               plan::TensorPlacement::keep};
  for (int op = 0; op < ops; ++op) plan.placements.push_back({op, "", {kPlaces[op % 3]}, kPlaces[op / 3 % 3]});
  const plan::RecordedStepCosts kept = planner::costs_without_recompute(facts, costs);
  planner::StepPredictor(facts, kept).predict(plan);
  const planner::Planner planner(facts, kept);
  const int64_t most = planner.predict({}).peak_bytes, least = planner.least_memory({}, "").predicted.peak_bytes;
  if (const auto planned = planner.plan({least + (most - least) / 2, 0}, "")) planner.reasons(*planned);
  const auto there = planner::scale_costs(facts, kept, plan::find_machine("t4"), plan::find_machine("b200"), "");
  if (std::isnan(there.least.step_ms) || std::isnan(there.most.step_ms)) std::abort();
  planner::StepPredictor(facts, there.likely).predict(plan);
}

void read_facts(const std::string& input) {
  const auto facts = parse_json(input).get<plan::ProgramFacts>();
  for (const char* name :
       {"none", "checkpoint:full", "checkpoint:every=2", "checkpoint:op", "checkpoint:cheap", "offload:stream",
        "offload:sync", "offload:group", "checkpoint:hf-offload", "checkpoint:deepspeed-cpu",
        "checkpoint:megatron-uniform", "checkpoint:megatron-block,layers=2", "offload:torchtune",
        "checkpoint:titan-selective+offload:trl", "checkpoint:full+offload:swift"})
    try {
      plan::make_plan(plan::Strategy::parse(name), facts);
    } catch (const Error&) {
    }
}

void read_sweep(const std::string& input) {
  folder().file("sweep.json", input);
  const sweep::RunDirectory directory(folder().path());
  directory.check_format();
  print_all(make_report(directory, directory.read_record()));
}

void read_report(const std::string& input) { print_all(report::from_json_text(input, "input")); }

void read_measurement(const std::string& input) {
  report::Report report;
  report.rows.push_back({parse_json(input).get<result::TrialMeasurement>(), false, false, {}, {}});
  use(report.rows[0].measurement);
  report.recommendation = recommend(report.rows, int64_t{1} << 34, result::RecommendationGoal::throughput);
  mark_rows(report.rows, report.recommendation);
  print_all(report);
}

// Adds the correct checksum to each line except those that begin with '!'.
void read_journal(const std::string& input) {
  std::string text;
  for (const std::string& line : split(input, '\n'))
    text += line.starts_with('!') ? line.substr(1) + "\n" : hash_hex(line).substr(0, 16) + " " + line + "\n";
  const fs::path path = folder().file("journal", text);
  sweep::SweepTrialJournal{path};
  const std::string repaired = read_file(path);
  sweep::SweepTrialJournal{path};
  if (read_file(path) != repaired) std::abort();  // a repaired journal needs no repair
}

// Adds the correct checksum.
void read_manifest(const std::string& input) {
  json value = parse_json(input);
  if (value.is_object()) {
    value.erase("check");
    value["check"] = hash_hex(value.dump());
  }
  const state::StateManifest manifest = state::parse_manifest(value.dump());
  if (state::parse_manifest(print(manifest)).tensors.size() != manifest.tensors.size()) std::abort();
  state::check_whole(manifest);
}

void read_safetensors(const std::string& input) {
  const safetensors::Header header = safetensors::parse_header(input, 48);
  if (safetensors::parse_header(print_header(header).substr(safetensors::kLengthBytes), 48).entries.size() !=
      header.entries.size())
    std::abort();
}

void read_strategy(const std::string& input) {
  static const plan::ProgramFacts facts = small_facts();
  const plan::Strategy strategy = plan::Strategy::parse(input);
  if (to_string(plan::Strategy::parse(to_string(strategy))) != to_string(strategy)) std::abort();
  plan::make_plan(strategy, facts);
}

void read_words(const std::string& input) {
  const std::function<void()> parsers[] = {
      [&] { to_string(plan::parse_input_spec(input)); },
      [&] { format_bytes(parse_bytes(input)); },
      [&] { plan::BlockSet ranges(input); },
      [&] { parse_integer(input, "it"); },
      [&] { parse_number(input, "it"); },
      [&] { glob_match(input, "layers.0.attention"); },
      [&] { glob_match("a*.b?*", input); },
      [&] { valid_utf8(input); },
      [&] { printable(input); },
  };
  for (const auto& parser : parsers) try {
      parser();
    } catch (const Error&) {
    }
}

void read_frames(const std::string& input) {
  sweep::TrialOutputFrameParser reader([](const sweep::TrialPhaseProgress&) {});
  reader.add(input.substr(0, input.size() / 2));
  reader.add(input.substr(input.size() / 2));
  reader.add("\n");
  if (reader.answer()) std::visit([](const auto& answer) { use(answer); }, *reader.answer());
}

// The input is the directory of the gradients, after 48 bytes of gradients.
void read_reference(const std::string& input) {
  constexpr char kMagic[] = "MTREFER4";
  const uint64_t head[] = {plan::kFirstGradient + 48, hash64(input.data(), input.size(), 0)};
  const std::string file = std::string(kMagic) + std::string(reinterpret_cast<const char*>(head), sizeof head) +
                           std::string(48, '\0') + input;
  const fs::path path = folder().file("reference", file);
  plan::is_whole_reference(path);
  plan::read_reference(path);
}

void read_run_request(const std::string& input) {
  const auto request = parse_json(input).get<plan::ResumableTrainingRequest>();
  const json written = request;
  if (json(written.get<plan::ResumableTrainingRequest>()) != written) std::abort();
  plan::resume_settings(request.trial.model, request.trial.training);
}

void read_request(const std::string& input) {
  const auto request = parse_json(input).get<plan::TrialRequest>();
  const json written = request;
  if (json(written.get<plan::TrialRequest>()) != written) std::abort();
}

// A written key must be read back, and a removed key must be gone, in any user config.
void read_yaml_text(const std::string& text) {
  const std::vector<std::string> path = {"a", "b"};
  const std::string put = trainer::put_in_yaml(text, path, json(7), "x");
  if (trainer::read_whole_yaml(put, "x").at("a").at("b") != json(7)) std::abort();
  trainer::lines_of_yaml(put, "x").line_of(path);
  if (trainer::read_whole_yaml(trainer::put_in_yaml(put, path, std::nullopt, "x"), "x").at("a").contains("b"))
    std::abort();
  if (!json::accept(text) || !parse_json(text, JsonDuplicateKeyPolicy::refused).is_object()) return;
  if (parse_json(trainer::put_in_json(text, path, json(7), "x")).at("a").at("b") != json(7)) std::abort();
}

// The same for TOML.
void read_toml_text(const std::string& text) {
  const std::vector<std::string> path = {"a", "b"};
  const std::string put = trainer::put_in_toml(text, path, json(7), "x");
  if (trainer::read_whole_toml(put, "x").at("a").at("b") != json(7)) std::abort();
  trainer::lines_of_toml(put, "x").line_of(path);
  if (trainer::read_whole_toml(trainer::put_in_toml(put, path, std::nullopt, "x"), "x").at("a").contains("b"))
    std::abort();
}

// A file of a run folder. What is read must be written so that it reads the same again.
void read_python_plan(const std::string& text) {
  const std::string written = trainer::to_python(trainer::read_python_data(text));
  if (trainer::to_python(trainer::read_python_data("\n" + written)) != written) std::abort();
}

// Uses the largest times that a trace allows.
std::string traced_copies() {
  trace::Trace trace;
  trace.tracks = {{trace::TrackRole::copy_out, 7, 0}};
  trace.names = {"copy"};
  for (const int64_t ns : {-trace::kMaxAbsTimeNs, int64_t{0}, trace::kMaxAbsTimeNs - 9})
    trace.events.push_back({.kind = trace::EventKind::copy_out, .start_ns = ns, .end_ns = ns + 9, .bytes = 1 << 20});
  const fs::path path = folder().path() / "copies";
  trace::write_trace(path, trace);
  return read_file(path);
}

// Records of a hostile or killed process while they grow. A form feed separates those of a second rank.
void read_records(const std::string& input) {
  const size_t second = std::min(input.find('\f'), input.size()), half = second / 2;
  const fs::path records = folder().path() / "records";
  fs::create_directory(records);
  attach::RecordFolderReader reader(records);
  folder().file("records/1.jsonl", input.substr(0, half));
  folder().file("records/2.jsonl", "");
  reader.poll();
  folder().file("records/1.jsonl", input.substr(0, second));
  folder().file("records/2.jsonl", input.substr(std::min(second + 1, input.size())));
  reader.poll();
  static const std::string device_trace = traced_copies();
  folder().file("records/7.mttrace", device_trace);
  attach::CommandSettings settings;
  settings.folder = folder().path();
  const bool ended = input.size() % 2 == 0;
  attach::CommandExit ending;
  ending.stop = ended ? attach::CommandKillReason::none : attach::CommandKillReason::no_step;
  if (ended) ending.status = 0;
  ending.wall = std::chrono::seconds(60);
  report::Report report;
  report.rows.push_back(attach::make_result(settings, reader, ending).row);
  use(report.rows[0].measurement);
  for (const result::StateSaveModeMeasurement& save : report.rows[0].saves) use(save);
  print_all(report);
}

// A user's config and, after "%%", the arguments of the command, one per line. A choice must set its keys in a config
// that can be read again.
void read_own_config(const std::string& input) {
  static const trainer::TrainerProfile yaml = trainer::read_space_profile("trl"),
                                       json = trainer::read_space_profile("deepspeed");
  const size_t end = std::min(input.find("%%\n"), input.size());
  const std::string text = input.substr(0, end);
  const std::vector<std::string> words = split(input.substr(std::min(end + 3, input.size())), '\n');
  const trainer::TrainerProfile& profile = text.starts_with('{') ? json : yaml;
  const std::string name = text.starts_with('{') ? "x.json" : "x.yaml";
  const trainer::EditableUserTrainerSettings own(profile, text, name, words, profile.releases);
  if (own.with({}) != text) std::abort();
  for (const trainer::SettingAxis& axis : profile.axes)
    for (const trainer::SettingAxisOption& choice : axis.choices) try {
        own.arguments(choice.changes);
        const trainer::EditableUserTrainerSettings changed(profile, own.with(choice.changes), name, {},
                                                           profile.releases);
        for (const auto& [key, value] : choice.changes)
          if (changed.value(key) != own.value(key, choice.changes)) std::abort();
      } catch (const UsageError&) {
      }
}

// Checks a config of any format and writes keys to it.
void check_config(const std::string& text) {
  const bool json = text.starts_with('{'), toml = !json && text.find(" = ") != std::string::npos;
  const std::string name = json ? "x.json" : toml ? "x.toml" : "x.yaml";
  const std::map<std::string, std::string> old = {{"", "0.2.2"}};
  report::Report report;
  report.rows = {small_row()};
  const auto check = [&](const char* trainer, const std::map<std::string, std::string>& releases) {
    trainer::check_config(trainer, text, name, releases, 4);
    trainer::export_config(trainer, report.rows[0], report, {releases, text, name});
  };
  if (json) return check("deepspeed", {});
  toml ? check("torchtitan", old) : check("axolotl", {});
}

// Lines of an environment. An accepted launch must have a rank below its size.
void read_environment(const std::string& input) {
  launch::Environment environment;
  for (const std::string& line : split(input, '\n')) {
    const size_t equal = std::min(line.find('='), line.size());
    environment[line.substr(0, equal)] = line.substr(std::min(equal + 1, line.size()));
  }
  const std::optional<launch::LauncherRankEnvironment> launch = launch::read_launch(environment);
  if (!launch) return;
  const bool right = launch->rank >= 0 && launch->rank < launch->size && launch->local_size <= launch->size &&
                     launch->port > 0 && launch->port < 65536 && !launch->host.empty();
  if (!right) std::abort();
}

const std::map<std::string, void (*)(const std::string&)> kParsers = {{"trace", read_trace},
                                                                      {"plan", read_plan},
                                                                      {"plan_file", read_plan_file},
                                                                      {"profile", read_profile},
                                                                      {"machine", read_machine},
                                                                      {"facts", read_facts},
                                                                      {"costs", read_costs},
                                                                      {"sweep", read_sweep},
                                                                      {"report", read_report},
                                                                      {"measurement", read_measurement},
                                                                      {"journal", read_journal},
                                                                      {"safetensors", read_safetensors},
                                                                      {"manifest", read_manifest},
                                                                      {"strategy", read_strategy},
                                                                      {"words", read_words},
                                                                      {"frames", read_frames},
                                                                      {"request", read_request},
                                                                      {"model_file", read_model_file},
                                                                      {"pt2", read_pt2},
                                                                      {"pt2_tensors", read_pt2_tensors},
                                                                      {"pt2_archive", read_pt2_archive},
                                                                      {"pt2_samples", read_pt2_samples},
                                                                      {"pickle", read_pickle},
                                                                      {"transformers", read_transformers},
                                                                      {"adapter", read_adapter},
                                                                      {"yaml", read_yaml_text},
                                                                      {"records", read_records},
                                                                      {"own_config", read_own_config},
                                                                      {"check", check_config},
                                                                      {"reference", read_reference},
                                                                      {"run_request", read_run_request},
                                                                      {"toml", read_toml_text},
                                                                      {"python_plan", read_python_plan},
                                                                      {"launch", read_environment}};

void (*chosen)(const std::string&) = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--parser=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view word = (*argv)[i];
    if (!word.starts_with(kFlag)) continue;
    const auto found = kParsers.find(std::string(word.substr(kFlag.size())));
    if (found != kParsers.end()) chosen = found->second;
  }
  if (chosen) return 0;
  for (const auto& [name, parser] : kParsers) std::printf("%s\n", name.c_str());
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    chosen(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const Error&) {
  } catch (const json::exception&) {
  }
  return 0;
}
