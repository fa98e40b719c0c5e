#include "core/sweep/proposals/batch_proposer.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <utility>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/record/measurement/trial_result_row.h"
#include "core/sweep/proposals/recorded_costs.h"
#include "core/sweep/proposals/trial_proposer.h"

namespace memtune::sweep {
namespace {

using planner::StepPrediction;
using result::TrialMeasurement;

constexpr char kNone[] = "none";
constexpr int64_t kFurthest = 4;        // largest second recorded batch, as a multiple of the first
constexpr size_t kFirst = 3, kMax = 6;  // batches that are run: at first, and in all

std::string batch_text(int64_t batch) { return "batch " + std::to_string(batch); }

// The search at one sequence length.
class BatchSearch {
 public:
  BatchSearch(const CandidateStrategiesAndUserPlanFiles& candidates, const std::vector<InspectedModelAtShape>& settings,
              size_t first, const planner::PlanMemoryBudgets& limits, const GlobalBatchOrAccumulationSteps& size,
              bool disk)
      : candidates_(candidates),
        settings_(settings),
        first_(first),
        program_(settings[first].facts.program),
        sequence_(settings[first].sequence),
        limits_(limits),
        size_(size),
        batches_(size.batches()),
        predictor_(size, limits, disk) {}

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) {
    proposals_.clear();
    tried_ = tried;
    if (recording_)
      begin();
    else if (recorded_.empty() && !ended_)
      record(kNone, *settings_[first_].batch);
    else if (!ended_)
      prove();
    return std::exchange(proposals_, {});
  }

  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Recording {
    std::string name;
    int64_t batch = 0;
  };

  const FinishedProposal* find(const std::string& name, int64_t batch) const {
    const auto found = std::ranges::find_if(tried_, [&](const FinishedProposal& one) {
      return one.name == name && is_mine(one) && batch_of(one) == batch;
    });
    return found == tried_.end() ? nullptr : &*found;
  }
  bool is_mine(const FinishedProposal& one) const { return settings_[one.setting].sequence == sequence_; }
  int64_t batch_of(const FinishedProposal& one) const { return *settings_[one.setting].batch; }

  std::optional<plan::Plan> plan_of(const std::string& name) const {
    for (const CandidateStrategyOrUserPlanFile& candidate : candidates_.all())
      if (candidate.name() == name) try {
          return candidate.make_plan(program_);
        } catch (const UsageError&) {  // a model without blocks
        }
    return {};
  }

  void end(const std::string& why) {
    ended_ = true;
    notes_.push_back(why);
  }

  // --- two recordings ------------------------------------------------------------------------------------------------

  void record(const std::string& name, int64_t batch) {
    recording_ = {name, batch};
    proposals_.push_back({name, first_, *plan_of(name), {}, true, batch});
  }

  void begin() {
    const Recording recording = *std::exchange(recording_, std::nullopt);
    const FinishedProposal* source = find(recording.name, recording.batch);
    if (!source) return end(batch_text(recording.batch) + " was not run, so there is nothing to plan from");
    if (!worked(source->measurement)) return begin_smaller(recording, source->measurement);
    if (recorded_.empty()) program_ = settings_[source->setting].facts.program;
    std::string why;
    const auto costs = read_costs(source->folder, program_, &why);
    if (!costs) return end(source->name + ": " + why + ", and there is nothing to plan from");
    recorded_.push_back(recording.batch);
    predictor_.add({recording.batch, *costs}, program_);
    const auto second = recorded_.size() == 1 ? second_batch(source->measurement, costs->start_bytes) : std::nullopt;
    if (second) return record(recording.name, *second);
    if (recorded_.size() == 1)
      only_recorded("there is no larger one");
    else if (!predictor_.can_extrapolate())
      only_recorded("the two run different ops");
    begin_proving();
  }

  void begin_smaller(const Recording& recording, const TrialMeasurement& measured) {
    const std::string what =
        recording.name + " ended in " + to_string(measured.outcome) + " with " + batch_text(recording.batch);
    if (ended_out_of_memory(measured) && recording.name == kNone && plan_of(kCommonStrategy))
      return record(kCommonStrategy, recording.batch);
    if (recorded_.empty() && recording.batch > batches_.front()) return record(kNone, batches_.front());
    if (recorded_.empty()) return end(what + ": there is nothing to plan from");
    only_recorded(what);
    begin_proving();
  }

  void only_recorded(const std::string& why) {
    std::vector<std::string> known;
    for (const int64_t batch : recorded_) known.push_back(batch_text(batch));
    notes_.push_back("no batch is predicted other than " + join(known, " and ") + ": " + why);
  }

  // The largest batch that is likely to fit, because predictions are less accurate beyond the recorded batches. It is
  // at least the next larger one.
  std::optional<int64_t> second_batch(const TrialMeasurement& measured, int64_t fixed_bytes) const {
    const int64_t first = recorded_.front();
    const auto fixed = static_cast<double>(fixed_bytes);
    const double grown = static_cast<double>(required_bytes(measured)) - fixed;
    std::optional<int64_t> second;
    for (const int64_t batch : batches_) {
      if (batch <= first) continue;
      const double peak = fixed + grown * static_cast<double>(batch) / static_cast<double>(first);
      const bool is_near = peak <= static_cast<double>(limits_.budget_bytes) && batch <= kFurthest * first;
      if (second && !is_near) break;
      second = batch;
    }
    return second;
  }

  // --- predicted -----------------------------------------------------------------------------------------------------

  void begin_proving() {
    const BestPlanByBatchPredictor::BatchSearch search = predictor_.search(batches_);
    pages_ = search.predictions;
    if (search.ended) {
      const int64_t last = pages_.back()->batch;
      if (pages_.back()->step) {
        notes_.push_back("batches larger than " + batch_text(last) +
                         " are not run: it is predicted to be no faster than half of it");
      } else {
        notes_.push_back(batch_text(last) + " and larger ones are not run: no plan is predicted to fit " +
                         format_bytes(limits_.budget_bytes) + ", the smallest takes " +
                         format_bytes(predictor_.least_bytes(last)));
        pages_.pop_back();
      }
    }
    if (pages_.empty()) return end("no batch is left to try");
    std::vector<const BestPlanByBatchPredictor::BatchPrediction*> ranked = pages_;
    std::ranges::stable_sort(ranked, {}, &BestPlanByBatchPredictor::BatchPrediction::sample_ms);
    for (size_t i = 0; i < std::min(ranked.size(), kFirst); ++i) run(ranked[i]->batch);
    if (proposals_.empty()) prove();  // all of them were run as recordings
  }

  // --- measured ------------------------------------------------------------------------------------------------------

  // Proposes the best plan of the batch, and checkpoint:full to compare its gradients with, unless `none` ran there.
  void run(int64_t batch) {
    const planner::PredictedPlan& step = *predictor_.prediction(batch)->step;
    ran_.insert(batch);
    const auto rival = plan_of(kCommonStrategy);
    if (step.plan.strategy != kNone && rival && !find(kNone, batch)) {
      const StepPrediction other = predictor_.predict(batch, *rival);
      if (limits_.satisfied_by(other))
        propose(kCommonStrategy, batch, *rival,
                {other.step_ms, other.peak_bytes, 0, other.host_peak_bytes, other.disk_peak_bytes});
    }
    propose(step.plan.strategy, batch, step.plan,
            {step.predicted.step_ms, step.predicted.peak_bytes, step.least_ms, step.predicted.host_peak_bytes,
             step.predicted.disk_peak_bytes});
  }

  void propose(const std::string& name, int64_t batch, const plan::Plan& plan,
               const result::TrialPrediction& predicted) {
    if (!find(name, batch)) proposals_.push_back({name, first_, plan, predicted, false, batch});
  }

  bool fits(const TrialMeasurement& measurement) const {
    return worked(measurement) && required_bytes(measurement) <= limits_.budget_bytes;
  }

  // Time per sample of the fastest trial at that batch that fits; infinity if there is none.
  double measured_ms(int64_t batch) const {
    double best = std::numeric_limits<double>::infinity();
    for (const FinishedProposal& one : tried_)
      if (is_mine(one) && batch_of(one) == batch && fits(one.measurement))
        best = std::min(best, size_.sample_ms(batch, one.measurement.step_ms.median));
    return best;
  }

  void prove() {
    for (const int64_t batch : ran_)
      if (!corrected_.contains(batch)) correct(batch);
    if (proposals_.empty()) climb();
    if (proposals_.empty()) finish();
  }

  // Corrects the prediction once, by what the plan's trial measured.
  void correct(int64_t batch) {
    const FinishedProposal* tried = find(predictor_.prediction(batch)->step->plan.strategy, batch);
    if (!tried) return;
    const TrialMeasurement& measured = tried->measurement;
    if (fits(measured) || (!worked(measured) && !ended_out_of_memory(measured))) return;
    corrected_.insert(batch);
    if (predictor_.correct(batch, worked(measured) ? required_bytes(measured) : 0)) run(batch);
  }

  // Runs a neighbour while the best batch is the largest (and gains over half of it) or the smallest that ran.
  void climb() {
    if (ran_.size() >= kMax) return;
    const int64_t best = *std::ranges::min_element(ran_, {}, [this](int64_t batch) { return measured_ms(batch); });
    const int64_t largest = *ran_.rbegin(), smallest = *ran_.begin();
    const auto half = std::ranges::find_if(ran_.rbegin(), ran_.rend(), [&](int64_t b) { return 2 * b <= best; });
    const bool gained = half == ran_.rend() || gains(measured_ms(best), measured_ms(*half));
    if (best == largest && gained && measured_ms(best) < std::numeric_limits<double>::infinity())
      run_neighbour(best, 1);
    else if (best == smallest)
      run_neighbour(best, -1);
  }

  void run_neighbour(int64_t batch, int step) {
    const auto at = std::ranges::find(batches_, batch);
    if (step < 0 ? at == batches_.begin() : std::next(at) == batches_.end()) return;
    const BestPlanByBatchPredictor::BatchPrediction* prediction = predictor_.prediction(*(at + step));
    if (prediction && prediction->step) run(prediction->batch);
  }

  void finish() {
    ended_ = true;
    std::vector<std::string> left;
    for (const BestPlanByBatchPredictor::BatchPrediction* prediction : pages_)
      if (!ran_.contains(prediction->batch))
        left.push_back(batch_text(prediction->batch) + " " + ms_text(prediction->sample_ms));
    if (!left.empty()) notes_.push_back("not run, because of the predicted time per sample: " + join(left, ", "));
  }

  const CandidateStrategiesAndUserPlanFiles& candidates_;
  const std::vector<InspectedModelAtShape>& settings_;
  const size_t first_;
  plan::ProgramFacts program_;  // of the first recorded batch
  const std::optional<int64_t> sequence_;
  const planner::PlanMemoryBudgets limits_;
  const GlobalBatchOrAccumulationSteps size_;
  const std::vector<int64_t> batches_;
  BestPlanByBatchPredictor predictor_;
  std::span<const FinishedProposal> tried_;
  std::optional<Recording> recording_;  // the one that runs now
  std::vector<int64_t> recorded_;
  std::vector<const BestPlanByBatchPredictor::BatchPrediction*> pages_;  // predicted batches that fit, ascending
  std::set<int64_t> ran_, corrected_;
  bool ended_ = false;
  std::vector<TrialProposal> proposals_;
  std::vector<std::string> notes_;
};

class BatchProposer : public TrialProposer {
 public:
  BatchProposer(const CandidateStrategiesAndUserPlanFiles& candidates,
                const std::vector<InspectedModelAtShape>& settings, const planner::PlanMemoryBudgets& limits,
                const GlobalBatchOrAccumulationSteps& size, bool disk) {
    for (size_t i = 0; i < settings.size(); ++i) {
      searches_.emplace_back(candidates, settings, i, limits, size, disk);
      whose_.push_back(settings.size() == 1 ? "" : result::axes_text({}, settings[i].sequence) + ": ");
    }
  }

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) override {
    std::vector<TrialProposal> proposals;
    for (BatchSearch& search : searches_)
      for (TrialProposal& proposal : search.next(tried)) proposals.push_back(std::move(proposal));
    return proposals;
  }

  std::vector<std::string> take_notes() override {
    std::vector<std::string> notes;
    for (size_t i = 0; i < searches_.size(); ++i)
      for (const std::string& note : searches_[i].take_notes()) notes.push_back(whose_[i] + note);
    return notes;
  }

 private:
  std::deque<BatchSearch> searches_;
  std::vector<std::string> whose_;  // "seq 1024: " if there are several
};

}  // namespace

int64_t first_recorded(const GlobalBatchOrAccumulationSteps& size) {
  const std::vector<int64_t> batches = size.batches();
  return batches[batches.size() > 2 ? 1 : 0];
}

TrialProposerFactory propose_batches(const planner::PlanMemoryBudgets& limits,
                                     const GlobalBatchOrAccumulationSteps& size, bool disk) {
  return
      [=](const CandidateStrategiesAndUserPlanFiles& candidates, const std::vector<InspectedModelAtShape>& settings) {
        return std::make_unique<BatchProposer>(candidates, settings, limits, size, disk);
      };
}

}  // namespace memtune::sweep
