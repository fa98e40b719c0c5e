#include "core/sweep/loop/engine_sweep_backend.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/answer/result/effect.h"
#include "core/base/allocator_settings.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/plan/request/reference_file.h"
#include "core/plan/rules/no_effect.h"
#include "core/plan/strategy/strategy.h"
#include "core/sweep/loop/command_line.h"
#include "core/sweep/loop/inspection.h"
#include "core/sweep/ranks/rank_trials.h"
#include "core/sweep/ranks/worker_coordinator.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using result::TrialMeasurement;
using result::TrialOutcome;

std::string text_of(const json& value) { return value.dump(1, '\t') + "\n"; }

// For comparisons with other programs. A sweep itself needs hashes alone.
bool reference_has_gradients() {
  const char* content = std::getenv("MEMTUNE_REFERENCE");
  return content && std::string_view(content) == "gradients";
}

// The part of a custom plan that had no effect; "" if both had one, or if the plan is a strategy's.
std::string idle_half(const plan::Plan& plan, const TrialMeasurement& m) {
  if (plan::Strategy::of_name(plan.strategy) || had_no_effect(m)) return "";
  if (plan.offloads_activations() && m.transfer.out_bytes == 0) return "nothing was offloaded";
  return plan.places(plan::TensorPlacement::recompute) && m.recomputed_ops == 0 ? "nothing was recomputed" : "";
}

void find_effect(const plan::Plan& plan, const plan::ProgramFacts& facts, TrialMeasurement& m) {
  if (!m.recomputed_bytes) return;  // no counters
  m.equal_to.clear();
  const std::optional<plan::Strategy> counted = plan::Strategy::of_name(effective_strategy(m));
  if (counted && !had_no_effect(m)) {
    const plan::Strategy left = plan::without_idle_parts(*counted, facts);
    // Counters are more reliable than what follows from the facts.
    const bool offloads_less = m.transfer.out_bytes > 0 && !left.offloads_activations();
    const bool recomputes_less = m.recomputed_ops > 0 && !left.recomputes();
    if (left != *counted && !offloads_less && !recomputes_less) m.equal_to = to_string(left);
  }
  const std::string half = idle_half(plan, m);
  m.no_effect = "";
  if (had_no_effect(m))
    m.no_effect = plan::why_no_effect(plan, facts);
  else if (m.transfer.out_bytes == 0 && (has_ineffective_part(m) || !half.empty()))
    m.no_effect = plan::why_nothing_offloaded(plan, facts);
  m.no_effect = half.empty() ? effect_text(m) : half + (m.no_effect.empty() ? "" : "; " + m.no_effect);
}

}  // namespace

EngineSweepBackend::EngineSweepBackend(const EngineSweepSettings& settings,
                                       const CandidateStrategiesAndUserPlanFiles& candidates, SweepListener& listener,
                                       const RunDirectory& directory, SweepJsonSettingsFactsAndTrials& record,
                                       const TrialProposerFactory& make_proposer)
    : settings_(settings),
      candidates_(candidates),
      listener_(listener),
      directory_(directory),
      record_(record),
      make_proposer_(make_proposer),
      spare_(settings.request.training.device),
      keys_(settings.request.model, settings.request.training, find_trial_program()),
      axes_(settings, listener, directory, keys_, spare()) {}

// Null where no trial follows, or one of several processes does.
PrestartedTrialProcess* EngineSweepBackend::spare() {
  return settings_.dry_run || settings_.request.training.ranks > 1 ? nullptr : &spare_;
}

std::optional<ModelInspectionResult> EngineSweepBackend::look() {
  if (!axes_.inspect_first()) return std::nullopt;
  return axes_.points().front().facts;
}

bool EngineSweepBackend::describe() {
  record_.request = settings_.request;
  if (record_.budget_bytes == 0) record_.budget_bytes = settings_.request.training.memory_cap_bytes;
  record_.global_batch = settings_.global_batch;
  record_.mtbf_s = settings_.mtbf_s;
  record_.keep_last = settings_.keep_last;
  record_.own_config = settings_.own_config;
  record_.own_strategy = settings_.own_strategy;
  if (!axes_.inspect_all()) return false;
  record_.facts = axes_.points().front().facts;
  if (!candidates_.offload_states()) check_limits(settings_.request.training, settings_.budget_bytes, record_.facts);
  proposer_ = make_proposer_(candidates_, axes_.points());
  return true;
}

std::vector<SweepTrialAndMeasurement> EngineSweepBackend::next(std::span<const SweepTrialAndMeasurement> trials) {
  std::vector<FinishedProposal> tried;
  for (const SweepTrialAndMeasurement& trial : trials)
    tried.push_back(
        {trial.spec.strategy, trial.setting, trial.measurement, absolute(std::filesystem::path(trial.spec.folder))});
  std::vector<SweepTrialAndMeasurement> proposed;
  for (TrialProposal& proposal : proposer_->next(tried)) {
    if (!take_batch(proposal)) return {};
    proposed.push_back(trial_of(std::move(proposal)));
  }
  for (const std::string& note : proposer_->take_notes()) listener_.noted(note);
  find_frontiers();
  return proposed;
}

void EngineSweepBackend::find_frontiers() {
  record_.frontiers.clear();
  for (size_t i = 0; i < axes_.points().size(); ++i) {
    std::vector<result::TrialPrediction> plans =
        proposer_->frontier(i, [this](size_t budget, size_t budgets) { listener_.planning(budget, budgets); });
    if (plans.empty()) continue;
    SweepTrialEntry spec;
    set_axes(axes_.points()[i], spec);
    record_.frontiers.push_back({spec.batch, spec.sequence, std::move(plans)});
  }
}

std::vector<std::string> EngineSweepBackend::notes() const {
  std::vector<std::string> notes = candidates_.notes();
  notes.insert(notes.end(), axes_.notes().begin(), axes_.notes().end());
  return notes;
}

// Inspects the proposal's batch, if new. Returns false if a signal arrived.
bool EngineSweepBackend::take_batch(TrialProposal& proposal) {
  if (!proposal.batch) return true;
  const size_t notes = axes_.notes().size();
  const auto setting = axes_.find_or_inspect(*proposal.batch, proposal.setting);
  for (size_t i = notes; i < axes_.notes().size(); ++i) listener_.noted(axes_.notes()[i]);
  if (setting) proposal.setting = *setting;
  return setting.has_value();
}

SweepTrialAndMeasurement EngineSweepBackend::trial_of(TrialProposal proposal) {
  const InspectedModelAtShape& point = axes_.points().at(proposal.setting);
  plan::TrialRequest request = axes_.request_at(point);
  request.plan = std::move(proposal.plan);
  request.training.memory_cap_bytes = cap_of(proposal, request.training.memory_cap_bytes);
  if (proposal.expandable_segments && may_expand_segments()) request.envelope.allocator = kExpandableSegments;
  const std::string reference = "reference-" + keys_.setting(request).substr(0, 8) + ".bin";
  request.envelope.reference = std::filesystem::absolute(directory_ / reference).string();
  request.envelope.gradients = reference_has_gradients();
  SweepTrialAndMeasurement trial;
  trial.setting = proposal.setting;
  trial.spec = {proposal.name, {}, {}, keys_.trial(request), ""};
  trial.spec.predicted = proposal.predicted;
  set_axes(point, trial.spec);
  if (proposal.costs) with_costs_.insert(trial.spec.key);
  requests_.insert_or_assign(trial.spec.key, std::move(request));
  return trial;
}

// On a GPU whatever may be recommended runs as on one that has no more memory than the budget: only that shows that the
// allocator gets by. The baseline and trials that record costs have the whole device.
int64_t EngineSweepBackend::cap_of(const TrialProposal& proposal, int64_t cap_bytes) const {
  const int64_t budget = settings_.budget_bytes;
  if (budget <= 0 || settings_.request.training.device == "cpu" || proposal.costs ||
      proposal.name == candidates_.all().front().name())
    return cap_bytes;
  return cap_bytes > 0 ? std::min(cap_bytes, budget) : budget;
}

// An axis with one value is a plain setting.
void EngineSweepBackend::set_axes(const InspectedModelAtShape& point, SweepTrialEntry& spec) const {
  if (settings_.batches.size() > 1 || settings_.global_batch > 0 || settings_.finds_batch) spec.batch = point.batch;
  if (settings_.sequences.size() > 1) spec.sequence = point.sequence;
}

// A reference is read and checked only once in a sweep.
bool EngineSweepBackend::is_whole(const std::string& reference) {
  if (whole_references_.contains(reference)) return true;
  if (!plan::is_whole_reference(reference)) return false;
  whole_references_.insert(reference);
  return true;
}

// Of a trial that has just written them. A trial that reads gradients checks their hashes.
void EngineSweepBackend::trust(const plan::TrialRequest& request) {
  for (const std::string& reference :
       references_of(request.envelope.reference, request.training.ranks, settings_.workers))
    if (std::filesystem::exists(reference)) whole_references_.insert(reference);
}

// True if the references of every rank are complete.
bool EngineSweepBackend::has_references(const plan::TrialRequest& request) {
  const std::string& reference = request.envelope.reference;
  const bool here = std::ranges::all_of(references_of(reference, request.training.ranks, settings_.workers),
                                        [this](const std::string& each) { return is_whole(each); });
  return here && (!settings_.workers || settings_.workers->all_have_reference(reference));
}

bool EngineSweepBackend::reuse(const SweepTrialAndMeasurement& trial, const TrialMeasurement& measurement) {
  const bool worked = measurement.outcome == TrialOutcome::ok;
  // If it made the reference, later trials need that.
  const result::GradientComparison& gradients = measurement.gradients;
  const bool made_reference = !gradients.compared || gradients.against == measurement.strategy;
  if (worked && made_reference && !has_references(request(trial.spec))) return false;
  if (worked && with_costs_.contains(trial.spec.key) && !was_to_record(trial.spec)) return false;
  any_worked_ = true;
  requests_.at(trial.spec.key).envelope.allocator = measurement.allocator;
  return true;
}

// True if that trial was asked to record its step costs. If it has none nevertheless, another run will not record them.
bool EngineSweepBackend::was_to_record(const SweepTrialEntry& spec) const try {
  const json request = parse_json(read_file(directory_ / spec.folder / "request.json", directory_.files()));
  return !request.value("costs", "").empty();
} catch (const std::exception&) {
  return false;
}

void EngineSweepBackend::prepare(const SweepTrialAndMeasurement& trial) {
  const std::filesystem::path folder = directory_ / trial.spec.folder;
  FileSystem& files = directory_.files();
  plan::TrialRequest& request = requests_.at(trial.spec.key);
  request.envelope.trace = absolute(std::filesystem::path(trial.spec.folder) / "trace.mttrace");
  if (with_costs_.contains(trial.spec.key))
    request.envelope.costs = absolute(std::filesystem::path(trial.spec.folder) / "costs.json");
  for (int rank = 0; rank < request.training.ranks; ++rank)
    remove_file(costs_of_rank(folder / "costs.json", rank), files);  // of an earlier attempt
  request.envelope.command = command_line();
  // A trial rejects a reference that it cannot read. Without one, the next trial makes it.
  if (!has_references(request))
    for (const std::string& reference :
         references_of(request.envelope.reference, request.training.ranks, settings_.workers))
      remove_file(reference, files);
  write_file(folder / "plan.json", text_of(request.plan), files);
  write_file(folder / "request.json", text_of(request), files);
}

TrialMeasurementSavesAndNotes EngineSweepBackend::measure(const SweepTrialAndMeasurement& trial, bool first,
                                                          std::optional<std::chrono::milliseconds> left) {
  const std::filesystem::path folder = absolute(std::filesystem::path(trial.spec.folder));
  const std::string name = first ? "request.json" : "round.json";
  plan::TrialRequest request = requests_.at(trial.spec.key);
  if (!first) {
    request.envelope.round = 1;
    request.envelope.trace = "";
    request.envelope.costs = "";
    write_file(folder / name, text_of(request), directory_.files());
  }
  TrialProcessSettings command{{"run", (folder / name).string()},
                               folder / (first ? "log.txt" : "round.txt"),
                               left ? std::min(settings_.limit, *left) : settings_.limit,
                               [this](const TrialPhaseProgress& phase) { listener_.phase(phase); },
                               &directory_.files()};
  const auto run = [&] {
    // PyTorch reads the allocator's settings as its libraries are loaded.
    command.spare = request.envelope.allocator.empty() ? spare() : nullptr;
    return complete(run_ranks(request, folder, name, command, directory_.files(), settings_.workers), trial);
  };
  TrialMeasurement measurement = run();
  if (measurement.fragmented && request.envelope.allocator.empty() && may_expand_segments()) {
    request.envelope.allocator = requests_.at(trial.spec.key).envelope.allocator = kExpandableSegments;
    write_file(folder / name, text_of(request), directory_.files());
    measurement = run();
  }
  if (measurement.gradients.undecided && write_gradients(trial, measurement.gradients.against)) measurement = run();
  any_worked_ |= measurement.outcome == TrialOutcome::ok;
  if (measurement.outcome == TrialOutcome::ok && measurement.gradients.against == measurement.strategy) trust(request);
  return {measurement};
}

// Into the reference of `trial`, which has their hashes alone. Its baseline runs again for this.
bool EngineSweepBackend::write_gradients(const SweepTrialAndMeasurement& trial, const std::string& baseline) {
  const std::string& reference = request(trial.spec).envelope.reference;
  const auto found = std::ranges::find_if(requests_, [&](const auto& each) {
    return each.second.envelope.reference == reference && each.second.plan.strategy == baseline;
  });
  if (found == requests_.end()) return false;
  plan::TrialRequest request = found->second;
  request.envelope.only_gradients = true;
  request.envelope.trace = request.envelope.costs = "";
  const std::filesystem::path folder = absolute(std::filesystem::path(trial.spec.folder));
  const std::string name = "reference.json";
  write_file(folder / name, text_of(request), directory_.files());
  const TrialProcessSettings command{{"run", (folder / name).string()},
                                     folder / "reference.txt",
                                     settings_.limit,
                                     [this](const TrialPhaseProgress& phase) { listener_.phase(phase); },
                                     &directory_.files()};
  const TrialAnswer answer = run_ranks(request, folder, name, command, directory_.files(), settings_.workers);
  const auto* measurement = std::get_if<TrialMeasurement>(&answer);
  return measurement && measurement->outcome == TrialOutcome::ok;
}

// Converts any answer into a measurement of this trial.
TrialMeasurement EngineSweepBackend::complete(const TrialAnswer& answer, const SweepTrialAndMeasurement& trial) const {
  TrialMeasurement measurement;
  if (const auto* result = std::get_if<TrialMeasurement>(&answer)) {
    measurement = *result;
  } else if (const auto* problem = std::get_if<ReceivedUsageError>(&answer)) {
    if (!any_worked_) throw UsageError(problem->message);
    measurement.outcome = TrialOutcome::error;
    measurement.reason = problem->message;
  } else if (const auto* failure = std::get_if<ProcessFailure>(&answer)) {
    measurement.outcome = failure->outcome;
    measurement.reason = failure->reason;
  } else {
    measurement.outcome = TrialOutcome::error;
    measurement.reason = "memtune-trial gave another answer than a measurement";
  }
  measurement.plan = (std::filesystem::path(trial.spec.folder) / "plan.json").string();
  return measurement;
}

void EngineSweepBackend::evaluate(SweepTrialAndMeasurement& trial) {
  if (trial.measurement.outcome == TrialOutcome::ok)
    find_effect(request(trial.spec).plan, axes_.points().at(trial.setting).facts.program, trial.measurement);
}

std::string EngineSweepBackend::absolute(const std::filesystem::path& relative) const {
  return std::filesystem::absolute(directory_ / relative).string();
}

}  // namespace memtune::sweep
