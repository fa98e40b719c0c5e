#include "core/plan/planner/cost_range_converted_to_other_machine.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "core/base/median.h"
#include "core/plan/planner/cross_machine_roofline.h"

namespace memtune::planner {
namespace {

using plan::MachineProfile;
using plan::RecordedStepCosts;
using Kind = RecordedStepCosts::Moment::Kind;

constexpr double kSeenMs = 0.02;       // lag behind the host from which the device counts as busy
constexpr double kOptimizerMoves = 3;  // of trained bytes, at least: parameter and gradient in, parameter out
constexpr double kUnhurried = 0.25;    // quantile of an op's host times that counts as work without waiting
constexpr double kReached = 0.9;       // quantile, by time, of the share of the roofline that ops reach
constexpr double kSameStep = 1.001;
constexpr int kHalvings = 30;

enum class Case { here, likely, least, most };  // here: on the machine that measured

// A stretch of a pass: a run, or the time after an unpack.
struct Stretch {
  double ms = 0, host_ms = 0;
  RooflineTimeOnSourceAndTargetMachine roof = {};
  bool unknown = false;  // its roofline is unknown
  bool bound_by_arithmetic = false;
  double arithmetic_ratio = 1;
  std::pair<std::string, bool> op = {};  // name; true: its backward
  enum class Pace {
    busy,    // the device had work all the time
    idle,    // the device waited for the host
    waited,  // the host waited for the device
  } pace = Pace::busy;
};
using Pace = Stretch::Pace;

RooflineTimeOnSourceAndTargetMachine part(const RooflineTimeOnSourceAndTargetMachine& roof, double share) {
  return {share * roof.from_ms, share * roof.to_ms};
}

double kept_ms(const RecordedStepCosts& costs) {
  double ms = costs.before_ms;
  for (const auto& run : costs.runs) ms += run.ms;
  for (const auto& moment : costs.moments) ms += moment.ms;
  return costs.passes * ms + costs.after_ms;
}

// Shares of the recorded host time that the host takes without recording.
struct HostShares {
  double least = 1, likely = 1, most = 1;
};

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
  StepScale(const plan::ProgramFacts& facts, const RecordedStepCosts& costs, const CrossMachineRoofline& roofline)
      : costs_(costs), roofline_(roofline), has_queue_(costs.grain_bytes > 1), knows_busy_(costs.has_issue_times()) {
    add_runs(facts);
    add_moments(facts);
    optimizer_ = roofline.moved(kOptimizerMoves * static_cast<double>(facts.trained_bytes));
    if (has_queue_ && !knows_busy_) find_paces();
    memory_reach_ = find_reach(false);
    arithmetic_reach_ = find_reach(true);
    if (!has_queue_) return;
    if (!knows_busy_) find_host_work();
    find_efficiency();
    find_host_shares();
  }

  RecordedStepCosts scaled(Case of) const {
    RecordedStepCosts scaled = played(of);
    if (const double here = kept_ms(played(Case::here)); here > 0)
      scaled.step_ms = costs_.step_ms * kept_ms(scaled) / here;
    return scaled;
  }

 private:
  RecordedStepCosts played(Case of) const {
    RecordedStepCosts played = costs_;
    played.issue = {};  // what the device waits for the host becomes part of its times
    Lag lag;
    size_t next = 0;
    for (RecordedStepCosts::Run& run : played.runs) run.ms = played_ms(stretches_[next++], of, lag);
    const Stretch before{.ms = costs_.before_ms, .arithmetic_ratio = roofline_.memory_ratio()};
    if (busy_between_) played.before_ms = scaled_busy(before, before.ms, of);
    for (RecordedStepCosts::Moment& moment : played.moments)
      if (moment.kind == Kind::unpack) moment.ms = played_ms(stretches_[next++], of, lag);
    const Stretch after{.ms = costs_.after_ms, .roof = optimizer_, .arithmetic_ratio = roofline_.memory_ratio()};
    played.after_ms = scaled_busy(after, after.ms, of);
    return played;
  }

  void add(int run, const plan::ProgramFacts& facts, double ms, double host_ms,
           const RooflineTimeOnSourceAndTargetMachine& roof, bool backward) {
    const plan::ProgramOpFacts& op = facts.ops[static_cast<size_t>(costs_.runs[static_cast<size_t>(run)].op)];
    stretches_.push_back({ms,
                          host_ms,
                          roof,
                          roofline_.unknown(run),
                          roofline_.bound_by_arithmetic(run),
                          roofline_.arithmetic_ratio(run),
                          {op.name, backward}});
  }

  void add_runs(const plan::ProgramFacts& facts) {
    for (size_t i = 0; i < costs_.runs.size(); ++i) {
      const RecordedStepCosts::Run& run = costs_.runs[i];
      const double host_ms = knows_busy_ ? costs_.issue.runs[i].ms : run.host_ms;
      add(static_cast<int>(i), facts, run.ms, host_ms, roofline_.forward(static_cast<int>(i)), false);
    }
  }

  // If backward unpacks several tensors, each stretch gets a share of its roofline, by time.
  void add_moments(const plan::ProgramFacts& facts) {
    const auto run_of = [&](const RecordedStepCosts::Moment& moment) {
      return costs_.saved[static_cast<size_t>(moment.saved)].run;
    };
    std::vector<double> all(costs_.runs.size());
    for (const RecordedStepCosts::Moment& moment : costs_.moments)
      all[static_cast<size_t>(run_of(moment))] += moment.ms;
    for (size_t i = 0; i < costs_.moments.size(); ++i) {
      const RecordedStepCosts::Moment& moment = costs_.moments[i];
      if (moment.kind != Kind::unpack) continue;
      const int run = run_of(moment);
      const double of_run = all[static_cast<size_t>(run)];
      const RooflineTimeOnSourceAndTargetMachine roof =
          part(roofline_.backward(run), of_run > 0 ? moment.ms / of_run : 0);
      add(run, facts, moment.ms, knows_busy_ ? costs_.issue.moments[i].ms : moment.host_ms, roof, true);
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

  // A host that is far ahead waits for room in the queue of the device. That time is not work.
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

  // Median over stretches in which the device was busy all the time.
  void find_efficiency() {
    std::vector<double> all;
    for (const Stretch& stretch : stretches_)
      if (stretch.pace != Pace::idle && stretch.ms > 0 && stretch.roof.from_ms > 0)
        all.push_back(std::min(1.0, stretch.roof.from_ms / stretch.ms));
    if (all.empty()) return;
    efficiency_ = upper_median(std::move(all));
  }

  // Share of the roofline that the best ops reach. An op that reaches more than all of it does less work than it seems
  // to, and is left out.
  double find_reach(bool of_arithmetic) const {
    std::vector<std::pair<double, double>> all;  // share of the roofline, ms
    double ms = 0;
    for (const Stretch& stretch : stretches_) {
      if (stretch.pace == Pace::idle || stretch.roof.from_ms <= 0 || stretch.ms <= 0) continue;
      if (stretch.bound_by_arithmetic != of_arithmetic || stretch.roof.from_ms > stretch.ms) continue;
      all.emplace_back(stretch.roof.from_ms / stretch.ms, stretch.ms);
      ms += stretch.ms;
    }
    std::ranges::sort(all);
    double below = 0;
    for (const auto& [reached, its_ms] : all)
      if ((below += its_ms) >= kReached * ms) return reached;
    return 1;
  }

  // Recording slows the host down. The measured step was not recorded, so the host needs only a share of the recorded
  // time: the one with which the simulated step takes as long as the measured step. If the device alone takes that
  // long, any smaller share is possible.
  void find_host_shares() {
    const auto ms_with = [&](double share) {
      shares_ = {share, share, share};
      return kept_ms(played(Case::here));
    };
    const double device_ms = ms_with(0), step_ms = kSameStep * std::max(costs_.step_ms, device_ms);
    double low = 0, high = 1;
    if (ms_with(1) <= step_ms) low = 1;
    for (int i = 0; i < kHalvings && low < 1; ++i) {
      const double middle = (low + high) / 2;
      (ms_with(middle) <= step_ms ? low : high) = middle;
    }
    const bool open = low < 1 && costs_.step_ms <= device_ms;
    shares_ = {open ? 0 : low, open ? low / 2 : low, low};
  }

  // Where the device was idle, its busy time follows from the roofline and the usual efficiency. It is between the
  // roofline and the whole stretch.
  double busy_ms(const Stretch& stretch, Case of) const {
    if (stretch.pace != Pace::idle || stretch.unknown) return stretch.ms;
    const double roof_ms = stretch.roof.from_ms, usual_ms = roof_ms / efficiency_;
    const double busy = of == Case::least  ? roof_ms
                        : of == Case::most ? std::max(usual_ms, share(of) * stretch.host_ms)
                                           : usual_ms;
    return std::min(stretch.ms, busy);
  }

  // The time that the roofline explains scales with it. The rest scales with arithmetic, with memory, or stays;
  // `likely` takes the middle.
  double scaled_busy(const Stretch& stretch, double ms, Case of) const {
    if (of == Case::here) return ms;
    std::array rest{stretch.arithmetic_ratio, roofline_.memory_ratio(), 1.0};
    std::ranges::sort(rest);
    const double rest_ratio = rest[of == Case::least ? 0 : of == Case::most ? 2 : 1];
    if (stretch.unknown) return ms * (of == Case::likely ? stretch.arithmetic_ratio : rest_ratio);
    if (stretch.roof.from_ms <= 0) return ms * rest_ratio;
    const double ratio = stretch.roof.to_ms / stretch.roof.from_ms;
    const double reach = of != Case::likely ? 1 : stretch.bound_by_arithmetic ? arithmetic_reach_ : memory_reach_;
    const double explained = std::min(ms, stretch.roof.from_ms / reach);
    const double of_rest = of == Case::least  ? std::min(ratio, rest_ratio)
                           : of == Case::most ? std::max(ratio, rest_ratio)
                                              : rest_ratio;
    return explained * ratio + (ms - explained) * of_rest;
  }

  double played_ms(const Stretch& stretch, Case of, Lag& lag) const {
    const double busy = scaled_busy(stretch, busy_ms(stretch, of), of);
    if (!has_queue_) return busy;
    if (stretch.pace == Pace::waited) {
      lag.begin_anew();
      return busy;
    }
    const double host_ms = share(of) * stretch.host_ms;
    const double ms = std::max(busy, host_ms - lag.ms());
    lag.pass(ms, host_ms);
    return ms;
  }

  double share(Case of) const {
    return of == Case::least ? shares_.least : of == Case::most ? shares_.most : shares_.likely;
  }

  const RecordedStepCosts& costs_;
  const CrossMachineRoofline& roofline_;
  const bool has_queue_;            // the host runs ahead of the device; false if the CPU emulates it
  const bool knows_busy_;           // recorded times are those of the device alone
  std::vector<Stretch> stretches_;  // runs, then unpacks
  bool busy_between_ = true;        // the device, from forward to backward
  RooflineTimeOnSourceAndTargetMachine optimizer_;
  double memory_reach_ = 1, arithmetic_reach_ = 1;
  double efficiency_ = 1;
  HostShares shares_;
};

// Copies slow compute down by their share of the device's memory bandwidth.
double share_of_memory(const RecordedStepCosts& costs, const MachineProfile& machine) {
  const double link = costs.out_gb_per_s + costs.in_gb_per_s;
  return (link > 0 ? link : 1) / machine.memory_gb_per_s;
}

}  // namespace

CostRangeConvertedToOtherMachine scale_costs(const plan::ProgramFacts& facts, const RecordedStepCosts& costs,
                                             const plan::MachineProfile& from, const plan::MachineProfile& to,
                                             const std::string& dtype) {
  if (from == to) return {costs, costs, costs};
  const CrossMachineRoofline roofline(facts, costs, from, to, dtype);
  const StepScale scale(facts, costs, roofline);
  CostRangeConvertedToOtherMachine all{scale.scaled(Case::likely), scale.scaled(Case::least), scale.scaled(Case::most)};
  for (RecordedStepCosts* one : {&all.likely, &all.least, &all.most}) {
    if (to.link_out_gb_per_s > 0) one->out_gb_per_s = to.link_out_gb_per_s;
    if (to.link_in_gb_per_s > 0) one->in_gb_per_s = to.link_in_gb_per_s;
    if (to.disk_write_gb_per_s > 0) one->disk_write_gb_per_s = to.disk_write_gb_per_s;
    if (to.disk_read_gb_per_s > 0) one->disk_read_gb_per_s = to.disk_read_gb_per_s;
    one->copy_slowdown = std::min(1.0, costs.copy_slowdown * share_of_memory(*one, to) / share_of_memory(costs, from));
  }
  return all;
}

}  // namespace memtune::planner
