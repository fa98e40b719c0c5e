#include "core/engine/shard/single_process_host_offloaded_model_states.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace memtune::shard {

using schedule::ModelStateKind;

struct SingleProcessHostOffloadedModelStates::GradientHook final : torch::autograd::PostAccumulateGradHook {
  GradientHook(schedule::ModelStateOffloadScheduler& schedule, int group) : schedule(schedule), group(group) {}
  void operator()(const at::Tensor& /*leaf*/) override { schedule.gradient_made(group); }

  schedule::ModelStateOffloadScheduler& schedule;
  int group;
};

SingleProcessHostOffloadedModelStates::SingleProcessHostOffloadedModelStates(const program::Program& program,
                                                                             const plan::ProgramFacts& facts,
                                                                             const plan::Plan& plan,
                                                                             device::Device& device)
    : units_(find_units(program, facts)), host_(device), device_(device) {
  const auto place_of = [&](const std::string& unit) {
    const bool is_block = std::ranges::count(facts.blocks, unit, &plan::BlockModulePath::region) > 0;
    const auto place =
        std::ranges::find(plan.states, is_block ? unit : plan::kOutsideUnits, &plan::UnitStatePlacement::unit);
    return place == plan.states.end() ? plan::UnitStatePlacement() : *place;
  };
  std::vector<schedule::ModelStateOffloadScheduler::Group> known;
  int number = 0;
  for (const ParameterUnit& unit : units_) {
    std::map<std::pair<at::ScalarType, bool>, program::NamedTensors> kinds;
    for (const auto& each : unit.parameters)
      kinds[{each.second.scalar_type(), each.second.requires_grad()}].push_back(each);
    for (const auto& [kind, same] : kinds) {
      groups_.push_back(std::make_unique<SingleProcessOffloadedUnitStates>(
          unit.name, same, place_of(unit.name), program.state.host_weights.get(), host_, device_));
      known.push_back({number, groups_.back()->parameters().trained() ? same.size() : 0});
    }
    ++number;
  }
  schedule::ModelStateCopyAndUpdateBackend& rows = *this;
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

SingleProcessHostOffloadedModelStates::~SingleProcessHostOffloadedModelStates() {
  for (const std::unique_ptr<SingleProcessOffloadedUnitStates>& group : groups_) {
    for (const ModelStateKind row : schedule::kStateRows)
      if (group->row(row)) group->row(row)->stop();
    const FlatParameter& parameters = group->parameters();
    for (size_t i = 0; parameters.trained() && i < parameters.parameters(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(parameters.parameter(i), nullptr);
  }
}

void SingleProcessHostOffloadedModelStates::update_with(optimizer::Optimizer& optimizer, int passes) {
  optimizer_ = &optimizer;
  const bool clips = optimizer.max_grad_norm() > 0;
  std::unordered_map<const void*, size_t> numbers;
  for (size_t i = 0; i < optimizer.parameters().size(); ++i)
    numbers[optimizer.parameters()[i].unsafeGetTensorImpl()] = i;
  for (const std::unique_ptr<SingleProcessOffloadedUnitStates>& group : groups_) {
    const FlatParameter& parameters = group->parameters();
    if (!parameters.trained()) continue;
    std::vector<size_t> own;
    for (size_t i = 0; i < parameters.parameters(); ++i)
      own.push_back(numbers.at(parameters.parameter(i).unsafeGetTensorImpl()));
    group->attach(optimizer, std::move(own), passes > 1 || clips);
  }
  schedule_->begin_updating(passes, clips);
}

void SingleProcessHostOffloadedModelStates::begin_step() {
  schedule_->begin_step();
  for (size_t i = 0; i < groups_.size(); ++i)
    if (!schedule_->pending(static_cast<int>(i))) groups_[i]->drop_gradients();
}

void SingleProcessHostOffloadedModelStates::begin_backward() {
  in_backward_ = true;
  schedule_->begin_backward();
}

void SingleProcessHostOffloadedModelStates::end_backward() {
  schedule_->end_backward();
  in_backward_ = false;
}

at::Tensor SingleProcessHostOffloadedModelStates::with_bytes(const at::Tensor& state) const {
  for (const std::unique_ptr<SingleProcessOffloadedUnitStates>& group : groups_)
    for (const ModelStateKind row : schedule::kStateRows)
      if (group->row(row) && group->row(row)->owns(state)) return group->row(row)->on_host(state);
  return state;
}

// --- what the schedule decides ---------------------------------------------------------------------------------------

template <class Function>
void SingleProcessHostOffloadedModelStates::change(Function function, bool updates) {
  if (watcher_) watcher_->before_change();
  function();
  if (watcher_) watcher_->after_change(updates);
}

void SingleProcessHostOffloadedModelStates::load(int group, ModelStateKind row) {
  std::optional<HostOffloadedTensor>& bytes = this->row(group, row);
  if (!bytes) return;
  if (bytes->on_device()) return bytes->load();
  counters_.in_bytes += bytes->bytes();
  change([&] { bytes->load(); });
}

void SingleProcessHostOffloadedModelStates::wait(int group, ModelStateKind row) {
  if (std::optional<HostOffloadedTensor>& bytes = this->row(group, row)) bytes->wait();
}

void SingleProcessHostOffloadedModelStates::store(int group, ModelStateKind row) {
  std::optional<HostOffloadedTensor>& bytes = this->row(group, row);
  if (!bytes) return;
  change([&] { bytes->store(); });
  counters_.out_bytes += bytes->bytes();
}

void SingleProcessHostOffloadedModelStates::free(int group, ModelStateKind row) {
  std::optional<HostOffloadedTensor>& bytes = this->row(group, row);
  if (bytes && bytes->on_device()) change([&] { bytes->free(); });
}

void SingleProcessHostOffloadedModelStates::settle(int group) {
  for (const ModelStateKind kind : schedule::kStateRows)
    if (std::optional<HostOffloadedTensor>& bytes = row(group, kind); bytes && bytes->storing())
      change([&] { bytes->settle(); });
}

void SingleProcessHostOffloadedModelStates::take_gradients(int group) {
  change([&] { groups_[group]->take_gradients(); });
}

void SingleProcessHostOffloadedModelStates::note_norms(int group) {
  change([&] { groups_[group]->add_norms(norms_); }, true);
}

void SingleProcessHostOffloadedModelStates::begin_clipping() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (auto& [place, norm] : std::exchange(norms_, {})) norms.push_back(norm);
  factor_ = norms.empty() ? at::Tensor() : optimizer::clip_factor(norms, optimizer_->max_grad_norm());
}

void SingleProcessHostOffloadedModelStates::update(int group) {
  change(
      [&] {
        const int64_t bytes = groups_[group]->update(schedule_->pending(group) ? factor_ : at::Tensor());
        used_before_.erase(group);
        if (keeps_gradients_ && in_backward_) used_gradient_bytes_ += bytes;
      },
      true);
}

// --- what costs are recorded of --------------------------------------------------------------------------------------

void SingleProcessHostOffloadedModelStates::set_watcher(OffloadedStateCopyAndUpdateObserver* watcher,
                                                        bool keeps_gradients) {
  watcher_ = watcher;
  keeps_gradients_ = watcher && keeps_gradients;
  end_step();
}

void SingleProcessHostOffloadedModelStates::end_step() {
  used_gradient_bytes_ = 0;
  for (size_t i = 0; i < groups_.size(); ++i)
    if (schedule_->pending(static_cast<int>(i))) used_before_.insert(static_cast<int>(i));
}

int64_t SingleProcessHostOffloadedModelStates::moved_gradient_bytes() const {
  int64_t bytes = used_gradient_bytes_;
  for (size_t i = 0; i < groups_.size(); ++i)
    if (!used_before_.contains(static_cast<int>(i))) bytes += groups_[i]->gradient_bytes();
  return bytes;
}

int64_t SingleProcessHostOffloadedModelStates::moved_bytes() const {
  int64_t bytes = moved_gradient_bytes();
  for (const std::unique_ptr<SingleProcessOffloadedUnitStates>& group : groups_) {
    bytes += group->state_bytes();
    for (const ModelStateKind row : schedule::kStateRows) bytes -= group->bytes_on_device(row);
  }
  return bytes;
}

}  // namespace memtune::shard
