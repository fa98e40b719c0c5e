#include "core/plan/planner/batch_extrapolated_cost_range.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/plan/planner/step_costs_with_waits_for_host.h"
#include "core/record/trace/private_save.h"

namespace memtune::planner {
namespace {

using plan::RecordedStepCosts;

bool same_values(const RecordedStepCosts& a, const RecordedStepCosts& b) {
  return std::ranges::equal(a.values, b.values,
                            [](const RecordedStepCosts::Value& x, const RecordedStepCosts::Value& y) {
                              return x.run == y.run && x.output == y.output && x.cast_of == y.cast_of;
                            });
}

bool same_runs(const RecordedStepCosts& a, const RecordedStepCosts& b) {
  return std::ranges::equal(a.runs, b.runs, [](const RecordedStepCosts::Run& x, const RecordedStepCosts::Run& y) {
    return x.op == y.op && x.writes_outside == y.writes_outside && x.reads == y.reads && x.makes == y.makes &&
           x.writes == y.writes && x.saves == y.saves;
  });
}

bool same_moments(const RecordedStepCosts& a, const RecordedStepCosts& b) {
  return std::ranges::equal(a.moments, b.moments,
                            [](const RecordedStepCosts::Moment& x, const RecordedStepCosts::Moment& y) {
                              return x.kind == y.kind && x.saved == y.saved;
                            });
}

bool run_the_same(const RecordedStepCosts& a, const RecordedStepCosts& b) {
  return a.grain_bytes == b.grain_bytes && same_values(a, b) && same_runs(a, b) && a.saved == b.saved &&
         same_moments(a, b) && a.plan.placements == b.plan.placements;
}

double pass_ms(const RecordedStepCosts& costs) {
  double ms = costs.before_ms + costs.rerun_ms;
  for (const RecordedStepCosts::Run& run : costs.runs) ms += run.ms;
  for (const RecordedStepCosts::Moment& moment : costs.moments) ms += moment.ms;
  return ms;
}

double recorded_ms(const RecordedStepCosts& costs) {
  const RecordedStepCosts issued = issue_step(costs).costs;
  return costs.passes * pass_ms(issued) + issued.after_ms;
}

// The host issues as many ops for every batch.
void scale_issue(RecordedStepCosts::IssueTimes& issue, double factor) {
  for (auto* times : {&issue.runs, &issue.moments})
    for (RecordedStepCosts::IssueTime& time : *times) time.ms *= factor;
  for (double* ms : {&issue.before_ms, &issue.after_ms, &issue.engine_ms, &issue.copy_ms}) *ms *= factor;
}

// Factor from recorded times to those of measured steps, in which nothing was recorded.
double scale(const RecordedStepCosts& costs) {
  const double recorded = recorded_ms(costs);
  return recorded > 0 && costs.step_ms > 0 ? costs.step_ms / recorded : 1;
}

class BatchLine {
 public:
  enum class Time { likely, least, most };

  BatchLine(const BatchSizeAndRecordedCosts& small, const BatchSizeAndRecordedCosts& large, int64_t batch)
      : small_(small),
        large_(large),
        batch_(batch),
        small_scale_(scale(small.costs)),
        large_scale_(scale(large.costs)) {}

  RecordedStepCosts costs(Time time, int passes) const {
    const RecordedStepCosts &a = small_.costs, &b = large_.costs;
    const auto ms = [&](double x, double y) { return this->ms(x * small_scale_, y * large_scale_, time); };
    RecordedStepCosts costs = b;
    for (size_t i = 0; i < b.values.size(); ++i) costs.values[i].bytes = bytes(a.values[i].bytes, b.values[i].bytes);
    for (size_t i = 0; i < b.runs.size(); ++i) {
      const RecordedStepCosts::Run &x = a.runs[i], &y = b.runs[i];
      RecordedStepCosts::Run& run = costs.runs[i];
      run.ms = ms(x.ms, y.ms), run.host_ms = ms(x.host_ms, y.host_ms);
      run.before_bytes = bytes(x.before_bytes, y.before_bytes), run.own_bytes = bytes(x.own_bytes, y.own_bytes);
    }
    for (size_t i = 0; i < b.moments.size(); ++i) {
      const RecordedStepCosts::Moment &x = a.moments[i], &y = b.moments[i];
      RecordedStepCosts::Moment& moment = costs.moments[i];
      moment.ms = ms(x.ms, y.ms), moment.host_ms = ms(x.host_ms, y.host_ms);
      moment.before_bytes = bytes(x.before_bytes, y.before_bytes),
      moment.peak_bytes = bytes(x.peak_bytes, y.peak_bytes);
    }
    costs.start_bytes = bytes(a.start_bytes, b.start_bytes);
    costs.before_peak_bytes = bytes(a.before_peak_bytes, b.before_peak_bytes);
    costs.after_peak_bytes = bytes(a.after_peak_bytes, b.after_peak_bytes);
    costs.rerun_ms = ms(a.rerun_ms, b.rerun_ms);
    costs.before_ms = ms(a.before_ms, b.before_ms);
    costs.after_ms =
        (a.after_ms * small_scale_ + b.after_ms * large_scale_) / 2;  // the optimizer does not depend on the batch
    costs.passes = passes;
    scale_issue(costs.issue, large_scale_);
    costs.step_ms = recorded_ms(costs);
    return costs;
  }

 private:
  int64_t bytes(int64_t small, int64_t large) const {
    const int64_t apart = large_.batch - small_.batch, more = (large - small) * (batch_ - small_.batch);
    const int64_t rounded_up = more > 0 ? (more + apart - 1) / apart : more / apart;
    return std::max<int64_t>(0, small + rounded_up);
  }

  double ms(double small, double large, Time time) const {
    const auto at = [this](double one, double other, int64_t from, int64_t to) {
      return one + (other - one) * static_cast<double>(batch_ - from) / static_cast<double>(to - from);
    };
    const double line = std::max(0.0, at(small, large, small_.batch, large_.batch));
    const bool of_one = small_.batch == 0;
    if (!of_one && batch_ >= small_.batch && batch_ <= large_.batch) return line;
    const bool above = batch_ > large_.batch;
    const double nearer = above || of_one ? large : small;
    const int64_t nearer_batch = above || of_one ? large_.batch : small_.batch;
    const double share = nearer * static_cast<double>(batch_) / static_cast<double>(nearer_batch);
    // A larger batch takes no less time, and no more than its proportional share.
    const double steady = of_one ? nearer : above ? std::clamp(line, nearer, share) : std::clamp(line, share, nearer);
    if (time == Time::likely) return of_one ? share : (steady + share) / 2;
    return time == Time::least ? std::min(steady, share) : std::max(steady, share);
  }

  const BatchSizeAndRecordedCosts &small_, &large_;
  const int64_t batch_;
  const double small_scale_, large_scale_;
};

// Bytes of all values of an output; for kPrivateSave, of all private tensors of the op.
std::map<std::pair<int, int>, int64_t> bytes_by_output(const RecordedStepCosts& costs) {
  std::map<std::pair<int, int>, int64_t> bytes;
  for (const RecordedStepCosts::Value& value : costs.values)
    if (value.run >= 0) bytes[{costs.runs[static_cast<size_t>(value.run)].op, value.output}] += value.bytes;
  return bytes;
}

}  // namespace

std::optional<BatchExtrapolatedCostRange> costs_at_batch(const BatchSizeAndRecordedCosts& one,
                                                         const BatchSizeAndRecordedCosts& other, int64_t batch,
                                                         int passes) {
  if (one.batch == other.batch || !run_the_same(one.costs, other.costs)) return {};
  const auto& [small, large] = one.batch < other.batch ? std::pair(&one, &other) : std::pair(&other, &one);
  using Time = BatchLine::Time;
  const BatchLine line(*small, *large, batch);
  return BatchExtrapolatedCostRange{line.costs(Time::likely, passes), line.costs(Time::least, passes),
                                    line.costs(Time::most, passes)};
}

plan::ProgramFacts facts_at_batch(plan::ProgramFacts facts, const BatchSizeAndRecordedCosts& here,
                                  const BatchSizeAndRecordedCosts& there) {
  const auto before = bytes_by_output(here.costs), then = bytes_by_output(there.costs);
  const double more = static_cast<double>(there.batch) / static_cast<double>(here.batch);
  // Grows as the recorded bytes of the output; if there are none, as the batch.
  const auto scaled = [&](int64_t bytes, int op, int output) {
    const auto old = before.find({op, output}), now = then.find({op, output});
    const bool known = old != before.end() && now != then.end() && old->second > 0;
    const double ratio = known ? static_cast<double>(now->second) / static_cast<double>(old->second) : more;
    return static_cast<int64_t>(static_cast<double>(bytes) * ratio + 0.5);
  };
  for (int op = 0; op < static_cast<int>(facts.ops.size()); ++op) {
    plan::ProgramOpFacts& one = facts.ops[static_cast<size_t>(op)];
    for (size_t i = 0; i < one.output_bytes.size(); ++i)
      one.output_bytes[i] = scaled(one.output_bytes[i], op, static_cast<int>(i));
    one.private_bytes = scaled(one.private_bytes, op, kPrivateSave);
    one.flops *= more;
  }
  return facts;
}

}  // namespace memtune::planner
