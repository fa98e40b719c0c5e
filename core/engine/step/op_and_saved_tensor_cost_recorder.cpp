#include "core/engine/step/op_and_saved_tensor_cost_recorder.h"

#include <algorithm>
#include <utility>

#include "core/base/device/allocation_grain.h"
#include "core/base/median.h"
#include "core/base/scoped_timer.h"
#include "core/record/trace/private_save.h"

namespace memtune::step {
namespace {

using autograd::SavedStorage;
using autograd::SavedStoragePtr;
using plan::RecordedStepCosts;
using Kind = RecordedStepCosts::Moment::Kind;

constexpr int kHeldMarks = 32;  // their ops have few kernels enough for the queue of a held device

double ms_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

OpAndSavedTensorCostRecorder::Mark OpAndSavedTensorCostRecorder::mark(bool may_hold) {
  Mark mark{device_.record_timed(device::StreamKind::compute), Clock::now(), {}, beside()};
  mark.next = mark.event;
  mark.waited = hold_ && hold_->expired();
  if (mark.waited || ++held_marks_ >= kHeldMarks || !may_hold) end_hold();
  if (hold_ || !may_hold || reruns_ || !engine_time_) return mark;
  hold_ = device_.hold_compute();
  held_marks_ = 0;
  if (!hold_) return mark;
  now_.held = true;
  mark.next = device_.record_timed(device::StreamKind::compute);
  return mark;
}

void OpAndSavedTensorCostRecorder::begin_step() {
  memory_.reset_peak();
  start_bytes_ = memory_.allocated();
}

// With gradient accumulation, only the last micro-batch is recorded.
void OpAndSavedTensorCostRecorder::begin_pass() {
  const bool again = part_ == Part::backward;
  const int passes = again ? now_.costs.passes + 1 : 1;
  const double update_ms = again ? now_.update_ms : 0;
  now_ = {};
  now_.update_ms = update_ms;
  last_is_read_ = false;
  units_.clear();
  now_.costs.passes = passes;
  now_.costs.start_bytes = start_bytes_;
  now_.costs.grain_bytes = device::allocation_grain(device_);
  now_.costs.plan = plan_;
  forget();
  ended_early_.clear();
  if (engine_time_) now_.engine_began = engine_time_();
  now_.own_began = own_;
  part_ = Part::forward;
  memory_.reset_peak();
}

void OpAndSavedTensorCostRecorder::begin_run(const RunningOpStoragesAndPendingSaves& op,
                                             const StorageToActivationTable& values) {
  const ScopedTimer own(own_);
  RecordedStepCosts::Run run;
  run.op = op.op().id;
  run.before_bytes = memory_.allocated();
  run.writes_outside = op.writes_outside();
  for (const RunningOpStoragesAndPendingSaves::Storage storage : op.read()) {
    const SavedStoragePtr value = values.find(storage);
    const int id = value ? id_of(value.get()) : private_id(storage);
    if (id >= 0 && std::ranges::count(run.reads, id) == 0) run.reads.push_back(id);
  }
  for (const RunningOpStoragesAndPendingSaves::Written& written : op.written())
    if (const int id = id_of(written.value.get()); id >= 0) run.writes.push_back(id);
  run.units = std::exchange(units_, {});
  now_.costs.runs.push_back(std::move(run));
  now_.runs.push_back(mark(!waits_in_.contains(op.op().id)));
  note_wait();
  now_.run_wait_ms.push_back(0);
  memory_.reset_peak();
}

void OpAndSavedTensorCostRecorder::end_run() {
  const ScopedTimer own(own_);
  RecordedStepCosts::Run& run = now_.costs.runs.back();
  run.own_bytes = std::max<int64_t>(0, memory_.peak() - run.before_bytes);
}

// The entry that ended at the last mark is an op that reads a result.
void OpAndSavedTensorCostRecorder::note_wait() {
  if (now_.runs.back().waited && now_.runs.size() > 1) waits_in_.insert(now_.costs.runs[now_.runs.size() - 2].op);
}

int OpAndSavedTensorCostRecorder::id_of(const SavedStorage* value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? -1 : found->second;
}

int OpAndSavedTensorCostRecorder::private_id(const c10::StorageImpl* storage) const {
  const auto found = privates_.find(storage);
  return found == privates_.end() ? -1 : found->second.id;
}

int OpAndSavedTensorCostRecorder::add_value(int output, int64_t bytes, bool outside) {
  const auto id = static_cast<int>(now_.costs.values.size());
  const auto run = static_cast<int>(now_.costs.runs.size()) - 1;
  now_.costs.values.push_back({outside ? -1 : run, output, bytes});
  if (!outside) now_.costs.runs.back().makes.push_back(id);
  return id;
}

// A private tensor is reported before it may become a value.
void OpAndSavedTensorCostRecorder::made(const SavedStoragePtr& value, const at::Storage& storage) {
  const ScopedTimer own(own_);
  const trace::ActivationOpOutputKey key = value->key();
  const int known = key.output == kPrivateSave ? private_id(storage.unsafeGetStorageImpl()) : -1;
  values_[value.get()] = known >= 0 ? known : add_value(key.output, key.bytes, key.op < 0);
  known_.push_back(value);
}

void OpAndSavedTensorCostRecorder::saved(const SavedTensorHandle& tensor, const SavedStorage& value) {
  const ScopedTimer own(own_);
  if (const int id = id_of(&value); id >= 0) add_saved(tensor, id);
}

void OpAndSavedTensorCostRecorder::saved_private(const SavedTensorHandle& tensor, const at::Storage& storage) {
  const ScopedTimer own(own_);
  const c10::StorageImpl* const key = storage.unsafeGetStorageImpl();
  const auto [found, is_new] = privates_.try_emplace(key, Private{storage.getWeakStorageImpl(), 0});
  if (is_new) found->second.id = add_value(kPrivateSave, static_cast<int64_t>(storage.nbytes()), false);
  add_saved(tensor, found->second.id);
}

void OpAndSavedTensorCostRecorder::cast(const at::Storage& storage, const SavedStoragePtr& source) {
  const int of = id_of(source.get());
  now_.costs.values[private_id(storage.unsafeGetStorageImpl())].cast_of = of < 0 ? RecordedStepCosts::kCastOfOther : of;
}

void OpAndSavedTensorCostRecorder::add_saved(const SavedTensorHandle& tensor, int value) {
  const auto id = static_cast<int>(now_.costs.saved.size());
  if (!tensors_.try_emplace(&tensor, id).second) return;
  now_.costs.saved.push_back({value, static_cast<int>(now_.costs.runs.size()) - 1});
  now_.costs.runs.back().saves.push_back(id);
}

void OpAndSavedTensorCostRecorder::end_forward() {
  part_ = Part::backward;
  privates_.clear();
  now_.runs.push_back(mark());
  note_wait();
  memory_.reset_peak();
  for (const int saved : ended_early_) {
    see_peak();
    add_moment(Kind::end, saved);
  }
}

// The peak since the previous entry belongs to that entry.
void OpAndSavedTensorCostRecorder::see_peak() {
  last_peak() = memory_.peak();
  memory_.reset_peak();
}

int64_t& OpAndSavedTensorCostRecorder::last_peak() {
  RecordedStepCosts& costs = now_.costs;
  if (last_is_read_) return costs.sharding.reads.back().peak_bytes;
  return costs.moments.empty() ? costs.before_peak_bytes : costs.moments.back().peak_bytes;
}

void OpAndSavedTensorCostRecorder::before_read(const std::vector<int>& units) {
  if (part_ == Part::forward) units_ = units;
  if (part_ == Part::backward) {
    see_peak();
    now_.costs.sharding.reads.push_back({.moment = static_cast<int>(now_.costs.moments.size()), .units = units});
    last_is_read_ = true;
  }
  read_began_ = Clock::now();
}

// Units are freed before others are gathered, so memory during a read is never above that before or after it.
void OpAndSavedTensorCostRecorder::after_read() {
  const double waited_ms = ms_between(read_began_, Clock::now());
  if (part_ == Part::forward && !now_.run_wait_ms.empty()) {
    now_.run_wait_ms.back() += waited_ms;
    now_.costs.sharding.forward_wait_ms += waited_ms;
  }
  if (part_ != Part::backward) return;
  RecordedStepCosts::UnitRead& read = now_.costs.sharding.reads.back();
  read.wait_ms = waited_ms;
  read.before_bytes = read.peak_bytes = memory_.allocated();
  now_.unpack_wait_ms.back() += waited_ms;
  memory_.reset_peak();
}

void OpAndSavedTensorCostRecorder::begin_change() {
  device_.synchronize();
  read_began_ = Clock::now();
  memory_.begin_change();
}

void OpAndSavedTensorCostRecorder::end_change(ChangeTime time) {
  device_.synchronize();
  memory_.end_change();
  const double ms = ms_between(read_began_, Clock::now());
  if (time == ChangeTime::here) return;
  if (time == ChangeTime::of_optimizer) now_.update_ms += ms;
  if (part_ == Part::forward && !now_.run_wait_ms.empty()) now_.run_wait_ms.back() += ms;
  if (part_ == Part::backward)
    (now_.unpack_began.size() > now_.unpack_ended.size() ? now_.rerun_wait_ms : now_.unpack_wait_ms.back()) += ms;
  if (part_ == Part::behind) now_.behind_wait_ms += ms;
}

// Gradients may be views of one storage, which counts once.
void OpAndSavedTensorCostRecorder::see_gradients() {
  const int64_t grain = now_.costs.grain_bytes;
  std::unordered_set<const c10::StorageImpl*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& gradient : gradients_()) {
    if (!gradient.defined() || !gradient.has_storage()) continue;
    if (seen.insert(gradient.storage().unsafeGetStorageImpl()).second)
      bytes += (static_cast<int64_t>(gradient.storage().nbytes()) + grain - 1) / grain * grain;
  }
  now_.costs.gradient_bytes.push_back(bytes + (moved_gradients_ ? moved_gradients_() : 0));
}

void OpAndSavedTensorCostRecorder::add_moment(Kind kind, int saved) {
  const int64_t allocated = memory_.allocated();
  see_gradients();
  now_.costs.moments.push_back({kind, saved, 0, 0, allocated, allocated});
  last_is_read_ = false;
  if (kind == Kind::unpack) now_.unpack_wait_ms.push_back(0);
}

void OpAndSavedTensorCostRecorder::unpack_began(const SavedTensorHandle& tensor) {
  const ScopedTimer own(own_);
  if (part_ != Part::backward || !tensors_.contains(&tensor)) return;
  see_peak();
  now_.unpack_began.push_back(mark());
}

void OpAndSavedTensorCostRecorder::unpack_ended(const SavedTensorHandle& tensor) {
  const ScopedTimer own(own_);
  const auto found = tensors_.find(&tensor);
  if (part_ != Part::backward || found == tensors_.end()) return;
  now_.unpack_ended.push_back(reruns_ ? mark() : now_.unpack_began.back());
  add_moment(Kind::unpack, found->second);
  if (reruns_) memory_.reset_peak();
}

void OpAndSavedTensorCostRecorder::release_began(const SavedTensorHandle& tensor) {
  const ScopedTimer own(own_outside_);
  const auto found = tensors_.find(&tensor);
  if (found == tensors_.end()) return;
  if (part_ == Part::forward) ended_early_.push_back(found->second);
  if (part_ == Part::backward) {
    see_peak();
    add_moment(Kind::end, found->second);
    ending_ = true;
  }
  tensors_.erase(found);  // another tensor may reuse its address
}

void OpAndSavedTensorCostRecorder::release_ended() {
  const ScopedTimer own(own_outside_);
  if (std::exchange(ending_, false)) memory_.reset_peak();
}

void OpAndSavedTensorCostRecorder::end_backward() {
  if (part_ != Part::backward) return;
  see_peak();
  see_gradients();
  end_hold();  // the optimizer has a hold of its own
  now_.unpack_began.push_back(mark());
  part_ = Part::behind;
}

void OpAndSavedTensorCostRecorder::end_optimizer() {
  if (part_ != Part::behind) return;
  now_.optimizer_issue_ms = ms_between(now_.unpack_began.back().host, Clock::now());
  end_hold();
}

void OpAndSavedTensorCostRecorder::end_step() {
  if (part_ != Part::behind) return;
  now_.end = mark(false);
  device_.synchronize();
  now_.costs.after_peak_bytes = memory_.peak();
  take_times(now_);
  if (now_.held) take_issue_times(now_);
  steps_.push_back(std::move(now_.costs));
  part_ = Part::none;
  now_ = {};
  forget();
}

void OpAndSavedTensorCostRecorder::forget() {
  values_.clear();
  known_.clear();
  privates_.clear();
  tensors_.clear();
}

void OpAndSavedTensorCostRecorder::take_times(Step& step) const {
  const auto ms = [](const Mark& from, const Mark& to) { return to.event->ms_since(*from.next); };
  const auto without = [](double wait_ms, double of_ms) { return std::max(0.0, of_ms - wait_ms); };
  for (size_t i = 0; i < step.costs.runs.size(); ++i) {
    const double wait_ms = step.run_wait_ms[i];
    step.costs.runs[i].ms = without(wait_ms, ms(step.runs[i], step.runs[i + 1]));
    step.costs.runs[i].host_ms = without(wait_ms, ms_between(step.runs[i].host, step.runs[i + 1].host));
  }
  size_t i = 0;
  for (RecordedStepCosts::Moment& moment : step.costs.moments) {
    if (moment.kind != Kind::unpack) continue;
    const double wait_ms = step.unpack_wait_ms[i + 1];
    moment.ms = without(wait_ms, ms(step.unpack_ended[i], step.unpack_began[i + 1]));
    moment.host_ms = without(wait_ms, ms_between(step.unpack_ended[i].host, step.unpack_began[i + 1].host));
    if (reruns_) step.costs.rerun_ms += ms(step.unpack_began[i], step.unpack_ended[i]);
    ++i;
  }
  step.costs.rerun_ms = without(step.rerun_wait_ms, step.costs.rerun_ms);
  step.costs.before_ms = without(step.unpack_wait_ms.front(), ms(step.runs.back(), step.unpack_began.front()));
  step.costs.after_ms = without(step.behind_wait_ms, ms(step.unpack_began.back(), step.end)) + step.update_ms;
}

// How long it takes to issue an op that waits for the device is not seen. It counts as the usual op.
void OpAndSavedTensorCostRecorder::take_issue_times(Step& step) const {
  RecordedStepCosts::IssueTimes& issue = step.costs.issue;
  const auto of = [](const Mark& from, const Mark& to) {
    const std::chrono::duration<double, std::milli> beside = to.beside - from.beside;
    return RecordedStepCosts::IssueTime{std::max(0.0, ms_between(from.host, to.host) - beside.count()), to.waited};
  };
  std::vector<double> unhurried;
  for (size_t i = 0; i < step.costs.runs.size(); ++i) {
    issue.runs.push_back(of(step.runs[i], step.runs[i + 1]));
    issue.runs.back().waits |= waits_in_.contains(step.costs.runs[i].op);
    if (!issue.runs.back().waits) unhurried.push_back(issue.runs.back().ms);
  }
  size_t unpacks = 0;
  for (const RecordedStepCosts::Moment& moment : step.costs.moments) {
    issue.moments.emplace_back();
    if (moment.kind != Kind::unpack) continue;
    issue.moments.back() = of(step.unpack_began[unpacks], step.unpack_began[unpacks + 1]);
    ++unpacks;
  }
  const double usual_ms = unhurried.empty() ? 0 : median(std::move(unhurried));
  for (auto* times : {&issue.runs, &issue.moments})
    for (RecordedStepCosts::IssueTime& time : *times)
      if (time.waits) time.ms = usual_ms;
  const RecordedStepCosts::IssueTime before = of(step.runs.back(), step.unpack_began.front());
  issue.before_ms = before.waits ? usual_ms : before.ms;
  issue.after_ms = step.optimizer_issue_ms;
  const std::chrono::duration<double, std::milli> engine = engine_time_() - step.engine_began - (own_ - step.own_began);
  issue.engine_ms = std::max(0.0, engine.count());
}

}  // namespace memtune::step
