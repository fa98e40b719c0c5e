#include "core/engine/shard/offloaded_states.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/engine/shard/units.h"

namespace memtune::shard {

struct OffloadedStates::GradientHook final : torch::autograd::PostAccumulateGradHook {
  GradientHook(OffloadedStates& owner, size_t flat) : owner(owner), flat(flat) {}
  void operator()(const at::Tensor& /*leaf*/) override { owner.on_gradient(flat); }

  OffloadedStates& owner;
  size_t flat;
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
  for (const ParameterUnit& unit : find_units(program, facts)) {
    std::map<std::pair<at::ScalarType, bool>, program::NamedTensors> kinds;
    for (const auto& each : unit.parameters)
      kinds[{each.second.scalar_type(), each.second.requires_grad()}].push_back(each);
    units_.emplace_back();
    for (const auto& [kind, same] : kinds) add_flat(unit.name, same, place_of(unit.name));
  }
  schedule::UnitStorage& memory = *this;
  schedule_.emplace(units_.size(), schedule::ReshardPolicy::always, memory);
  reads_.emplace(*schedule_);
  for (const Flat& flat : flats_) reads_->add_unit(flat.rows->parameters().storage(), flat.unit);
}

OffloadedStates::~OffloadedStates() {
  for (const Flat& flat : flats_) {
    for (std::optional<HostBackedTensor>* row : flat.rows->all())
      if (*row) (*row)->stop();
    const FlatParameter& parameters = flat.rows->parameters();
    for (size_t i = 0; parameters.trained() && i < parameters.parameters(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(parameters.parameter(i), nullptr);
  }
}

// To the last unit.
void OffloadedStates::add_flat(const std::string& name, const program::NamedTensors& parameters,
                               const plan::StatePlacement& place) {
  const size_t number = flats_.size();
  Flat& flat = flats_.emplace_back();
  flat.unit = static_cast<int>(units_.size()) - 1;
  flat.rows = std::make_unique<StateRows>(name, parameters, place, host_, device_);
  units_.back().push_back(number);
  if (!flat.rows->parameters().trained()) return;
  for (const auto& [parameter_name, parameter] : parameters)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<GradientHook>(*this, number));
}

void OffloadedStates::update_with(optimizer::Optimizer& optimizer, int passes) {
  optimizer_ = &optimizer;
  passes_ = passes;
  std::unordered_map<const void*, size_t> numbers;
  for (size_t i = 0; i < optimizer.parameters().size(); ++i)
    numbers[optimizer.parameters()[i].unsafeGetTensorImpl()] = i;
  for (Flat& flat : flats_) {
    const FlatParameter& parameters = flat.rows->parameters();
    if (!parameters.trained()) continue;
    std::vector<size_t> own;
    for (size_t i = 0; i < parameters.parameters(); ++i)
      own.push_back(numbers.at(parameters.parameter(i).unsafeGetTensorImpl()));
    flat.rows->attach(optimizer, std::move(own), passes > 1 || clips());
  }
}

// --- copies ----------------------------------------------------------------------------------------------------------

void OffloadedStates::load(std::optional<HostBackedTensor>& row) {
  if (!row) return;
  if (!row->on_device()) counters_.in_bytes += row->bytes();
  row->load();
}

void OffloadedStates::store(std::optional<HostBackedTensor>& row) {
  if (!row) return;
  row->store();
  counters_.out_bytes += row->bytes();
}

// Stores that began a unit ago have most likely ended, so compute waits for none of them.
void OffloadedStates::settle(int but_unit) {
  for (const Flat& flat : flats_)
    for (std::optional<HostBackedTensor>* row : flat.rows->all())
      if (*row && flat.unit != but_unit) (*row)->settle();
}

void OffloadedStates::gather(int unit) {
  for (const size_t number : units_[unit]) {
    Flat& flat = flats_[number];
    load(flat.rows->values);
    if (flat.pending) load_for_update(flat);
    flat.in_use = true;
  }
}

void OffloadedStates::wait(int unit) {
  for (const size_t number : units_[unit]) {
    Flat& flat = flats_[number];
    if (flat.rows->values) flat.rows->values->wait();
    if (pass_ == Pass::forward && flat.pending) update(flat);
    if (pass_ == Pass::backward && optimizer_ && !flat.ended) load_for_update(flat);
    if (pass_ == Pass::forward && flat.rows->offloads()) settle(unit);
  }
}

void OffloadedStates::free(int unit) {
  for (const size_t number : units_[unit]) {
    if (flats_[number].rows->values) flats_[number].rows->values->free();
    flats_[number].in_use = false;
  }
}

// --- a step ----------------------------------------------------------------------------------------------------------

void OffloadedStates::begin_step() {
  schedule_->begin_step();
  drop();  // what a step that threw has left
  passes_left_ = passes_;
  for (const Flat& flat : flats_)
    if (!flat.pending) flat.rows->drop_gradients();
}

void OffloadedStates::begin_forward() {
  pass_ = Pass::forward;
  schedule_->begin_forward();
}

void OffloadedStates::begin_backward() {
  pass_ = Pass::backward;
  --passes_left_;
  for (Flat& flat : flats_) {
    flat.gradients = 0;
    flat.ended = !flat.rows->parameters().trained();
  }
  schedule_->begin_backward();
}

void OffloadedStates::end_backward() {
  for (size_t i = flats_.size(); i-- > 0;)
    if (!flats_[i].ended) end_gradients(flats_[i]);
  if (clips() && passes_left_ == 0) begin_updates();
  pass_ = Pass::none;
  schedule_->end_backward();
}

void OffloadedStates::drop() {
  pass_ = Pass::none;
  schedule_->drop();
  for (const Flat& flat : flats_)
    for (std::optional<HostBackedTensor>* row : flat.rows->all())
      if (*row) (*row)->free();
}

// --- gradients and updates -------------------------------------------------------------------------------------------

void OffloadedStates::on_gradient(size_t number) {
  Flat& flat = flats_[number];
  if (++flat.gradients == flat.rows->parameters().parameters()) end_gradients(flat);
}

void OffloadedStates::end_gradients(Flat& flat) {
  flat.ended = true;
  StateRows& rows = *flat.rows;
  if (!optimizer_ || (flat.gradients == 0 && !rows.has_gradients())) return;
  if (rows.gradients) {
    if (rows.has_gradients()) load(rows.gradients);
    rows.gradients->make_room();
    rows.gradients->wait();
    rows.take_gradients();
  }
  if (passes_left_ == 0 && !clips()) return update(flat);
  if (passes_left_ == 0) {
    rows.add_norms(norms_);
    flat.pending = true;
  }
  settle(flat.unit);
  store(rows.gradients);
  if (rows.gradients) rows.gradients->free();
}

// All gradients are known. What stays on the device is updated now, the rest when the next forward loads it.
void OffloadedStates::begin_updates() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (auto& [place, norm] : std::exchange(norms_, {})) norms.push_back(norm);
  if (norms.empty()) return;
  factor_ = optimizer::clip_factor(norms, optimizer_->max_grad_norm());
  for (Flat& flat : flats_)
    if (flat.pending && !flat.rows->offloads()) update(flat);
}

void OffloadedStates::load_for_update(Flat& flat) {
  if (flat.rows->gradients && flat.rows->has_gradients()) load(flat.rows->gradients);
  if (flat.pending || (passes_left_ == 0 && !clips())) load(flat.rows->moments);
}

void OffloadedStates::update(Flat& flat) {
  StateRows& rows = *flat.rows;
  load(rows.values);
  if (rows.gradients && rows.has_gradients()) load(rows.gradients);
  load(rows.moments);
  for (std::optional<HostBackedTensor>* row : rows.all())
    if (*row) (*row)->wait();
  rows.update(std::exchange(flat.pending, false) ? factor_ : at::Tensor());
  settle(flat.unit);
  store(rows.values);
  store(rows.moments);
  if (rows.values && !flat.in_use) rows.values->free();
  if (rows.moments) rows.moments->free();
  if (rows.gradients) rows.gradients->free();
}

at::Tensor OffloadedStates::with_bytes(const at::Tensor& state) const {
  for (const Flat& flat : flats_)
    for (const std::optional<HostBackedTensor>* row : flat.rows->all())
      if (*row && (*row)->owns(state)) return (*row)->on_host(state);
  return state;
}

void OffloadedStates::finish_updates() {
  for (Flat& flat : flats_)
    if (flat.pending) update(flat);
  settle(-1);
}

}  // namespace memtune::shard
