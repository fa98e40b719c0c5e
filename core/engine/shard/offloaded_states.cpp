#include "core/engine/shard/offloaded_states.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/engine/shard/units.h"

namespace memtune::shard {

using schedule::StateKind;

struct OffloadedStates::GradientHook final : torch::autograd::PostAccumulateGradHook {
  GradientHook(schedule::StateSchedule& schedule, int group) : schedule(schedule), group(group) {}
  void operator()(const at::Tensor& /*leaf*/) override { schedule.gradient_made(group); }

  schedule::StateSchedule& schedule;
  int group;
};

OffloadedStates::OffloadedStates(const program::Program& program, const plan::ProgramFacts& facts,
                                 const plan::Plan& plan, device::Device& device)
    : host_(device), device_(device) {
  const auto place_of = [&](const std::string& unit) {
    const bool is_block = std::ranges::count(facts.blocks, unit, &plan::BlockFacts::region) > 0;
    const auto place =
        std::ranges::find(plan.states, is_block ? unit : plan::kOutsideUnits, &plan::StatePlacement::unit);
    return place == plan.states.end() ? plan::StatePlacement() : *place;
  };
  std::vector<schedule::StateSchedule::Group> known;
  int number = 0;
  for (const ParameterUnit& unit : find_units(program, facts)) {
    std::map<std::pair<at::ScalarType, bool>, program::NamedTensors> kinds;
    for (const auto& each : unit.parameters)
      kinds[{each.second.scalar_type(), each.second.requires_grad()}].push_back(each);
    for (const auto& [kind, same] : kinds) {
      groups_.push_back(std::make_unique<StateRows>(unit.name, same, place_of(unit.name), host_, device_));
      known.push_back({number, groups_.back()->parameters().trained() ? same.size() : 0});
    }
    ++number;
  }
  schedule::StateRowDevice& rows = *this;
  schedule_.emplace(known, rows);
  reads_.emplace(schedule_->units());
  for (size_t i = 0; i < groups_.size(); ++i) {
    const FlatParameter& parameters = groups_[i]->parameters();
    reads_->add_unit(parameters.storage(), known[i].unit);
    for (size_t each = 0; each < known[i].parameters; ++each)
      torch::autograd::impl::set_post_acc_grad_hooks(parameters.parameter(each),
                                                     std::make_unique<GradientHook>(*schedule_, static_cast<int>(i)));
  }
}

OffloadedStates::~OffloadedStates() {
  for (const std::unique_ptr<StateRows>& group : groups_) {
    for (const StateKind row : schedule::kStateRows)
      if (group->row(row)) group->row(row)->stop();
    const FlatParameter& parameters = group->parameters();
    for (size_t i = 0; parameters.trained() && i < parameters.parameters(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(parameters.parameter(i), nullptr);
  }
}

void OffloadedStates::update_with(optimizer::Optimizer& optimizer, int passes) {
  optimizer_ = &optimizer;
  const bool clips = optimizer.max_grad_norm() > 0;
  std::unordered_map<const void*, size_t> numbers;
  for (size_t i = 0; i < optimizer.parameters().size(); ++i)
    numbers[optimizer.parameters()[i].unsafeGetTensorImpl()] = i;
  for (const std::unique_ptr<StateRows>& group : groups_) {
    const FlatParameter& parameters = group->parameters();
    if (!parameters.trained()) continue;
    std::vector<size_t> own;
    for (size_t i = 0; i < parameters.parameters(); ++i)
      own.push_back(numbers.at(parameters.parameter(i).unsafeGetTensorImpl()));
    group->attach(optimizer, std::move(own), passes > 1 || clips);
  }
  schedule_->begin_updating(passes, clips);
}

void OffloadedStates::begin_step() {
  schedule_->begin_step();
  for (size_t i = 0; i < groups_.size(); ++i)
    if (!schedule_->pending(static_cast<int>(i))) groups_[i]->drop_gradients();
}

at::Tensor OffloadedStates::with_bytes(const at::Tensor& state) const {
  for (const std::unique_ptr<StateRows>& group : groups_)
    for (const StateKind row : schedule::kStateRows)
      if (group->row(row) && group->row(row)->owns(state)) return group->row(row)->on_host(state);
  return state;
}

// --- what the schedule decides ---------------------------------------------------------------------------------------

void OffloadedStates::load(int group, StateKind row) {
  std::optional<HostBackedTensor>& bytes = groups_[group]->row(row);
  if (!bytes) return;
  if (!bytes->on_device()) counters_.in_bytes += bytes->bytes();
  bytes->load();
}

void OffloadedStates::wait(int group, StateKind row) {
  if (std::optional<HostBackedTensor>& bytes = groups_[group]->row(row)) bytes->wait();
}

void OffloadedStates::store(int group, StateKind row) {
  std::optional<HostBackedTensor>& bytes = groups_[group]->row(row);
  if (!bytes) return;
  bytes->store();
  counters_.out_bytes += bytes->bytes();
}

void OffloadedStates::free(int group, StateKind row) {
  if (std::optional<HostBackedTensor>& bytes = groups_[group]->row(row)) bytes->free();
}

void OffloadedStates::settle(int group) {
  for (const StateKind row : schedule::kStateRows)
    if (std::optional<HostBackedTensor>& bytes = groups_[group]->row(row)) bytes->settle();
}

void OffloadedStates::begin_clipping() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (auto& [place, norm] : std::exchange(norms_, {})) norms.push_back(norm);
  factor_ = norms.empty() ? at::Tensor() : optimizer::clip_factor(norms, optimizer_->max_grad_norm());
}

void OffloadedStates::update(int group) { groups_[group]->update(schedule_->pending(group) ? factor_ : at::Tensor()); }

}  // namespace memtune::shard
