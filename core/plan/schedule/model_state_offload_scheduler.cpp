#include "core/plan/schedule/model_state_offload_scheduler.h"

#include <algorithm>
#include <utility>

namespace memtune::schedule {
namespace {

// Units of a forward in which the last stores of the step before may run. That of an embedding takes as long as the
// forward of a few blocks.
constexpr int kStoresInForward = 5;

size_t count_units(const std::vector<ModelStateOffloadScheduler::Group>& groups) {
  int last = -1;
  for (const ModelStateOffloadScheduler::Group& group : groups) last = std::max(last, group.unit);
  return static_cast<size_t>(last + 1);
}

}  // namespace

ModelStateOffloadScheduler::ModelStateOffloadScheduler(const std::vector<Group>& groups,
                                                       ModelStateCopyAndUpdateBackend& device, Learned learned)
    : device_(device),
      groups_of_(count_units(groups)),
      units_(groups_of_.size(), ReshardPolicy::always, *this, std::move(learned.order)) {
  for (const Group& group : groups) {
    groups_of_[group.unit].push_back(static_cast<int>(groups_.size()));
    groups_.push_back({group});
  }
  for (size_t i = 0; i < learned.ends.size(); ++i) groups_[i].end = learned.ends[i];
}

ModelStateOffloadScheduler::Learned ModelStateOffloadScheduler::learned() const {
  Learned learned{units_.learned(), {}};
  for (const GroupState& group : groups_) learned.ends.push_back(group.end);
  return learned;
}

void ModelStateOffloadScheduler::begin_updating(int passes, bool clips) {
  updates_ = true;
  passes_ = passes;
  clips_ = clips;
}

// --- a step ----------------------------------------------------------------------------------------------------------

void ModelStateOffloadScheduler::begin_step() {
  units_.begin_step();
  drop();  // what a step that threw has left
  passes_left_ = passes_;
}

void ModelStateOffloadScheduler::begin_forward() {
  begin_pass(Pass::forward);
  units_.begin_forward();
}

void ModelStateOffloadScheduler::begin_pass(Pass pass) {
  pass_ = pass;
  entered_ = entered_before_ = -1;
  units_entered_ = 0;
}

void ModelStateOffloadScheduler::begin_backward() {
  if (!clips_ && units_entered_ < kStoresInForward) settle_others(-1);
  begin_pass(Pass::backward);
  --passes_left_;
  for (GroupState& group : groups_) {
    group.gradients = 0;
    group.ended = group.known.parameters == 0;
  }
  units_.begin_backward();
}

void ModelStateOffloadScheduler::gradient_made(int group) {
  if (++groups_[group].gradients == groups_[group].known.parameters) end_gradients(group);
}

void ModelStateOffloadScheduler::end_backward() {
  for (int group = static_cast<int>(groups_.size()); group-- > 0;)
    if (!groups_[group].ended) end_gradients(group);
  if (updates_ && clips_ && is_last_pass()) {
    device_.begin_clipping();
    for (size_t group = 0; group < groups_.size(); ++group)
      if (groups_[group].pending && !device_.offloads(static_cast<int>(group))) update(static_cast<int>(group));
  }
  pass_ = Pass::none;
  units_.end_backward();
}

void ModelStateOffloadScheduler::drop() {
  pass_ = Pass::none;
  units_.drop();
  for (size_t group = 0; group < groups_.size(); ++group)
    for (const ModelStateKind row : kStateRows) device_.free(static_cast<int>(group), row);
}

void ModelStateOffloadScheduler::finish_updates() {
  for (size_t group = 0; group < groups_.size(); ++group)
    if (groups_[group].pending) update(static_cast<int>(group));
  settle_others(-1);
}

// --- units -----------------------------------------------------------------------------------------------------------

void ModelStateOffloadScheduler::gather(int unit) {
  for (const int group : groups_of_[unit]) {
    device_.load(group, ModelStateKind::parameters);
    if (groups_[group].pending) load_for_update(group);
    groups_[group].in_use = true;
  }
}

void ModelStateOffloadScheduler::wait(int unit) {
  for (const int group : groups_of_[unit]) {
    device_.wait(group, ModelStateKind::parameters);
    if (pass_ == Pass::forward && groups_[group].pending) update(group);
  }
  if (unit != entered_) {
    entered_before_ = std::exchange(entered_, unit);
    ++units_entered_;
    if (pass_ == Pass::forward && units_entered_ == kStoresInForward) settle_others(unit);
  }
  if (pass_ != Pass::backward) return;
  for (size_t group = 0; updates_ && group < groups_.size(); ++group) {
    const int end = groups_[group].end < 0 ? groups_[group].known.unit : groups_[group].end;
    if (end == unit && !groups_[group].ended) load_for_update(static_cast<int>(group));
  }
}

void ModelStateOffloadScheduler::free(int unit) {
  for (const int group : groups_of_[unit]) {
    device_.free(group, ModelStateKind::parameters);
    groups_[group].in_use = false;
  }
}

// --- gradients and updates -------------------------------------------------------------------------------------------

// Gradients that end while backward is already in the next unit need their moments a unit earlier.
void ModelStateOffloadScheduler::learn_end(GroupState& group) const {
  const bool in_own = group.known.unit == entered_ || group.known.unit == entered_before_;
  group.end = in_own ? -1 : entered_;
}

void ModelStateOffloadScheduler::end_gradients(int number) {
  GroupState& group = groups_[number];
  group.ended = true;
  learn_end(group);
  if (!updates_ || (group.gradients == 0 && !device_.has_gradients(number))) return;
  if (passes_ > 1 || clips_) {
    if (device_.has_gradients(number)) device_.load(number, ModelStateKind::gradients);
    device_.wait(number, ModelStateKind::gradients);
    device_.take_gradients(number);
  }
  if (is_last_pass() && !clips_) return update(number);
  if (is_last_pass()) {
    device_.note_norms(number);
    group.pending = true;
  }
  settle_others(group.known.unit);
  device_.store(number, ModelStateKind::gradients);
  device_.free(number, ModelStateKind::gradients);
}

void ModelStateOffloadScheduler::load_for_update(int group) {
  if (device_.has_gradients(group)) device_.load(group, ModelStateKind::gradients);
  if (groups_[group].pending || (is_last_pass() && !clips_)) device_.load(group, ModelStateKind::moments);
}

void ModelStateOffloadScheduler::update(int number) {
  GroupState& group = groups_[number];
  device_.load(number, ModelStateKind::parameters);
  if (device_.has_gradients(number)) device_.load(number, ModelStateKind::gradients);
  device_.load(number, ModelStateKind::moments);
  for (const ModelStateKind row : kStateRows) device_.wait(number, row);
  device_.update(number);
  group.pending = false;
  settle_others(group.known.unit);
  device_.store(number, ModelStateKind::parameters);
  device_.store(number, ModelStateKind::moments);
  if (!group.in_use) device_.free(number, ModelStateKind::parameters);
  device_.free(number, ModelStateKind::moments);
  device_.free(number, ModelStateKind::gradients);
}

// Those that run began a unit ago and have most likely ended, so compute does not wait.
void ModelStateOffloadScheduler::settle_others(int unit) {
  for (size_t group = 0; group < groups_.size(); ++group)
    if (groups_[group].known.unit != unit) device_.settle(static_cast<int>(group));
}

}  // namespace memtune::schedule
