#include "core/planner/scaled_costs.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/planner/roofline.h"

namespace memtune::planner {
namespace {

using config::StepCosts;
using Kind = StepCosts::Moment::Kind;

constexpr double kSeenMs = 0.02;       // that the device is behind the host before it counts as having work
constexpr double kOptimizerMoves = 3;  // at least, of what is trained: parameter and gradient in, parameter out
constexpr double kUnhurried = 0.25;    // of an op's runs take no longer on the host than it works for them

enum class Case { likely, least, most };

// A stretch of a pass: a run, or what follows an unpack.
struct Stretch {
  double ms = 0, host_ms = 0;
  Roof roof = {};
  double unknown_ratio = 1;  // where the roof is not known
  double arithmetic_ratio = 1;
  std::pair<std::string, bool> op = {};  // name, whether its backward
  enum class Pace {
    busy,    // the device had work all the time
    idle,    // it waited for the host in it
    waited,  // the host waited for it, and began anew
  } pace = Pace::busy;
};
using Pace = Stretch::Pace;

Roof part(const Roof& roof, double share) { return {share * roof.from_ms, share * roof.to_ms}; }

// How far the device is behind the host.
class Lag {
 public:
  void pass(double ms, double host_ms) { ms_ = std::max(0.0, ms_ + ms - host_ms); }
  void begin_anew() { ms_ = 0; }
  double ms() const { return ms_; }
  bool seen() const { return ms_ > kSeenMs; }

 private:
  double ms_ = 0;
};

class StepScale {
 public:
  StepScale(const config::ProgramFacts& facts, const StepCosts& costs, const Roofline& roofline)
      : costs_(costs), roofline_(roofline), has_queue_(costs.grain_bytes > 1) {
    add_runs(facts);
    add_moments(facts);
    optimizer_ = roofline.moved(kOptimizerMoves * static_cast<double>(facts.trained_bytes));
    if (!has_queue_) return;
    find_paces();
    find_host_work();
    find_efficiency();
  }

  StepCosts scaled(Case of) const {
    StepCosts scaled = costs_;
    Lag lag;
    size_t next = 0;
    for (StepCosts::Run& run : scaled.runs) run.ms = scaled_ms(stretches_[next++], of, lag);
    const Stretch before{.ms = costs_.before_ms, .unknown_ratio = roofline_.memory_ratio()};
    if (busy_between_) scaled.before_ms = scaled_busy(before, before.ms, of);
    for (StepCosts::Moment& moment : scaled.moments)
      if (moment.kind == Kind::unpack) moment.ms = scaled_ms(stretches_[next++], of, lag);
    const Stretch after{.ms = costs_.after_ms,
                        .roof = optimizer_,
                        .unknown_ratio = roofline_.memory_ratio(),
                        .arithmetic_ratio = roofline_.memory_ratio()};
    scaled.after_ms = scaled_busy(after, after.ms, of);
    if (const double all = kept_ms(costs_); all > 0) scaled.step_ms = costs_.step_ms * kept_ms(scaled) / all;
    return scaled;
  }

 private:
  static double kept_ms(const StepCosts& costs) {
    double ms = costs.before_ms;
    for (const auto& run : costs.runs) ms += run.ms;
    for (const auto& moment : costs.moments) ms += moment.ms;
    return costs.passes * ms + costs.after_ms;
  }

  void add(int run, const config::ProgramFacts& facts, double ms, double host_ms, const Roof& roof, bool backward) {
    const config::OpFacts& op = facts.ops[static_cast<size_t>(costs_.runs[static_cast<size_t>(run)].op)];
    stretches_.push_back(
        {ms, host_ms, roof, roofline_.unknown_ratio(run), roofline_.arithmetic_ratio(run), {op.name, backward}});
  }

  void add_runs(const config::ProgramFacts& facts) {
    for (size_t i = 0; i < costs_.runs.size(); ++i) {
      const StepCosts::Run& run = costs_.runs[i];
      add(static_cast<int>(i), facts, run.ms, run.host_ms, roofline_.forward(static_cast<int>(i)), false);
    }
  }

  // Of a backward that asks for several tensors each stretch has its share.
  void add_moments(const config::ProgramFacts& facts) {
    const auto run_of = [&](const StepCosts::Moment& moment) {
      return costs_.saved[static_cast<size_t>(moment.saved)].run;
    };
    std::vector<double> all(costs_.runs.size());
    for (const StepCosts::Moment& moment : costs_.moments) all[static_cast<size_t>(run_of(moment))] += moment.ms;
    for (const StepCosts::Moment& moment : costs_.moments) {
      if (moment.kind != Kind::unpack) continue;
      const int run = run_of(moment);
      const double of_run = all[static_cast<size_t>(run)];
      add(run, facts, moment.ms, moment.host_ms, part(roofline_.backward(run), of_run > 0 ? moment.ms / of_run : 0),
          true);
    }
  }

  void find_paces() {
    Lag lag;
    for (size_t i = 0; i < stretches_.size(); ++i) {
      const bool behind = lag.seen();
      lag.pass(stretches_[i].ms, stretches_[i].host_ms);
      stretches_[i].pace = lag.seen() ? Pace::busy : behind ? Pace::waited : Pace::idle;
      if (i + 1 == costs_.runs.size()) busy_between_ = lag.seen();
    }
  }

  // A host that is far ahead waits for room in the device's queue: what it takes then is not what it works.
  void find_host_work() {
    std::map<std::pair<std::string, bool>, std::vector<double>> by_op;
    for (const Stretch& stretch : stretches_) by_op[stretch.op].push_back(stretch.host_ms);
    for (Stretch& stretch : stretches_) {
      if (stretch.pace != Pace::busy) continue;
      std::vector<double>& all = by_op[stretch.op];
      const auto unhurried = all.begin() + static_cast<std::ptrdiff_t>(kUnhurried * static_cast<double>(all.size()));
      std::nth_element(all.begin(), unhurried, all.end());
      stretch.host_ms = std::min(stretch.host_ms, *unhurried);
    }
  }

  // The median of stretches of which the device was busy all the time.
  void find_efficiency() {
    std::vector<double> all;
    for (const Stretch& stretch : stretches_)
      if (stretch.pace != Pace::idle && stretch.ms > 0 && stretch.roof.from_ms > 0)
        all.push_back(std::min(1.0, stretch.roof.from_ms / stretch.ms));
    if (all.empty()) return;
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    efficiency_ = *middle;
  }

  // Of an idle stretch that nothing is known of the device may have been busy in all of it.
  double busy_ms(const Stretch& stretch, Case of) const {
    if (stretch.pace != Pace::idle || stretch.roof.from_ms == 0 || of == Case::most) return stretch.ms;
    return std::min(stretch.ms, stretch.roof.from_ms / (of == Case::least ? 1 : efficiency_));
  }

  double scaled_busy(const Stretch& stretch, double ms, Case of) const {
    const bool known = stretch.roof.from_ms > 0;
    const double ratio = known ? stretch.roof.to_ms / stretch.roof.from_ms : stretch.unknown_ratio;
    if (of == Case::likely) return ms * ratio;
    const double explained = known ? std::min(ms, stretch.roof.from_ms) : 0;
    const auto [least, most] = std::minmax({ratio, stretch.arithmetic_ratio, roofline_.memory_ratio(), 1.0});
    return explained * ratio + (ms - explained) * (of == Case::least ? least : most);
  }

  double scaled_ms(const Stretch& stretch, Case of, Lag& lag) const {
    const double busy = scaled_busy(stretch, busy_ms(stretch, of), of);
    if (!has_queue_) return busy;
    if (stretch.pace == Pace::waited) {
      lag.begin_anew();
      return busy;
    }
    const double ms = std::max(busy, stretch.host_ms - lag.ms());
    lag.pass(ms, stretch.host_ms);
    return ms;
  }

  const StepCosts& costs_;
  const Roofline& roofline_;
  const bool has_queue_;  // the host runs ahead of the device; it does not where the processor plays the device
  std::vector<Stretch> stretches_;  // runs, then moments that unpack
  bool busy_between_ = true;        // whether the device was, from forward to backward
  Roof optimizer_;
  double efficiency_ = 1;
};

}  // namespace

ScaledCosts scale_costs(const config::ProgramFacts& facts, const StepCosts& costs, const config::MachineProfile& from,
                        const config::MachineProfile& to, const std::string& dtype) {
  if (from == to) return {costs, costs, costs};
  const Roofline roofline(facts, costs, from, to, dtype);
  const StepScale scale(facts, costs, roofline);
  ScaledCosts all{scale.scaled(Case::likely), scale.scaled(Case::least), scale.scaled(Case::most)};
  for (StepCosts* one : {&all.likely, &all.least, &all.most}) {
    if (to.link_out_gb_per_s > 0) one->out_gb_per_s = to.link_out_gb_per_s;
    if (to.link_in_gb_per_s > 0) one->in_gb_per_s = to.link_in_gb_per_s;
  }
  return all;
}

}  // namespace memtune::planner
