#include "core/shard/sharded_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/elapsed.h"
#include "core/base/text.h"
#include "core/config/vocabulary.h"
#include "core/shard/units.h"

namespace memtune::shard {

namespace {

// So often in one pass a unit is freed and gathered again; beyond that its readers are interleaved with others'.
constexpr int kMostReturns = 1;

}  // namespace

Reshard parse_reshard(const std::string& text) {
  const auto& names = config::kReshard;  // in the order of the enumerators
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw UsageError(unknown_name("reshard", text, names));
  return static_cast<Reshard>(found - names.begin());
}

struct ShardedParameters::Gradients final : torch::autograd::PostAccumulateGradHook {
  Gradients(ShardedParameters& owner, size_t flat) : owner(owner), flat(flat) {}
  void operator()(const at::Tensor& /*leaf*/) override { owner.gradient_came(flat); }

  ShardedParameters& owner;
  size_t flat;
};

ShardedParameters::ShardedParameters(const program::Program& program, const config::ProgramFacts& facts,
                                     Collectives& collectives, Reshard reshard)
    : collectives_(collectives), reshard_(reshard) {
  for (const ParameterUnit& unit : find_units(program, facts)) add_unit(unit.name, unit.parameters);
  stale_.resize(units_.size(), true);
}

ShardedParameters::~ShardedParameters() {
  for (const Flat& flat : flats_)
    for (size_t i = 0; flat.parameter->trained() && i < flat.parameter->parameters(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(flat.parameter->parameter(i), nullptr);
}

// Of each dtype, and of what is trained and what is not, a row of its own.
void ShardedParameters::add_unit(const std::string& name, const program::NamedTensors& parameters) {
  std::map<std::pair<at::ScalarType, bool>, program::NamedTensors> kinds;
  for (const auto& each : parameters) kinds[{each.second.scalar_type(), each.second.requires_grad()}].push_back(each);
  GatheredUnit unit{name, {}};
  for (const auto& [kind, same] : kinds) {
    const size_t number = flats_.size();
    auto flat = std::make_unique<FlatParameter>(name, same, collectives_.rank(), collectives_.size());
    for (size_t i = 0; flat->trained() && i < flat->parameters(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(flat->parameter(i), std::make_unique<Gradients>(*this, number));
    pieces_.insert(pieces_.end(), flat->pieces().begin(), flat->pieces().end());
    unit_of_[flat->storage()] = static_cast<int>(units_.size());
    unit.flats.push_back(number);
    flats_.push_back({std::move(flat), nullptr});
  }
  units_.push_back(std::move(unit));
}

int64_t ShardedParameters::gathered_now_bytes() const {
  int64_t bytes = 0;
  for (const Flat& flat : flats_) bytes += flat.parameter->allocated() ? flat.parameter->whole_bytes() : 0;
  return bytes;
}

// --- gathering -------------------------------------------------------------------------------------------------------

void ShardedParameters::need(const Units& units, const Units& kept) {
  if (units.empty() || std::ranges::all_of(units, [&](int unit) { return units_[unit].in_use; })) return;
  leave_others(units, kept);
  for (const int unit : units)
    if (!units_[unit].in_use) enter(unit);
}

void ShardedParameters::enter(int unit) {
  gather(unit);
  finish_gather(unit);
  units_[unit].in_use = true;
  if (!order_) return;
  if (const auto next = order_->next(unit)) gather(*next);
}

void ShardedParameters::gather(int unit) {
  if (!stale_[unit]) return;
  const at::NoGradGuard no_grad;
  for (const size_t number : units_[unit].flats) {
    Flat& flat = flats_[number];
    FlatParameter& parameter = *flat.parameter;
    if (!parameter.allocated()) parameter.allocate();
    note_order('g', number);
    flat.gather = collectives_.all_gather(parameter.whole(), parameter.shard(), parameter.name());
    ++counters_.gathers;
    counters_.gathered_bytes += parameter.whole_bytes();
  }
  stale_[unit] = false;
}

void ShardedParameters::finish_gather(int unit) {
  for (const size_t number : units_[unit].flats)
    if (const CollectivePtr gather = std::exchange(flats_[number].gather, nullptr)) wait(*gather);
}

void ShardedParameters::leave_others(const Units& units, const Units& kept) {
  const bool frees = reshard_ == Reshard::always || (reshard_ == Reshard::after_backward && order_ == &backward_);
  if (!frees) return;
  for (size_t i = 0; i < units_.size(); ++i) {
    const int unit = static_cast<int>(i);
    if (!units_[i].in_use || std::ranges::count(units, unit) + std::ranges::count(kept, unit) > 0) continue;
    if (++units_[i].returns > kMostReturns + 1) continue;
    free(unit);
  }
}

void ShardedParameters::free(int unit) {
  finish_gather(unit);
  for (const size_t number : units_[unit].flats) flats_[number].parameter->free();
  stale_[unit] = true;
  units_[unit].in_use = false;
}

void ShardedParameters::wait(Collective& collective) {
  const Elapsed waited(counters_.waited);
  collective.wait();
}

// Multiplier of Knuth's generator.
void ShardedParameters::note_order(char kind, size_t flat) {
  const auto next =
      static_cast<uint64_t>(order_hash_) * 6364136223846793005u + flat * 256 + static_cast<uint64_t>(kind);
  order_hash_ = static_cast<int64_t>(next);
}

at::Tensor ShardedParameters::of_all_ranks(int64_t number, const std::string& what) {
  const at::NoGradGuard no_grad;
  const at::Tensor own = at::full({1}, number, at::TensorOptions(at::kLong));
  const at::Tensor all = at::empty({collectives_.size()}, own.options());
  wait(*collectives_.all_gather(all, own, what));
  return all;
}

bool ShardedParameters::any_rank(bool here) { return of_all_ranks(here ? 1 : 0, "a question").any().item<bool>(); }

// Two units of one size would be taken for each other without a word.
void ShardedParameters::check_order() {
  if (!(of_all_ranks(order_hash_, "the ranks' order") == order_hash_).all().item<bool>()) throw Error(kOrdersDiffer);
}

// --- a step ----------------------------------------------------------------------------------------------------------

void ShardedParameters::begin_step() {
  drop();
  stale_.assign(units_.size(), true);
}

// What a step that threw has left goes as well.
void ShardedParameters::drop() {
  order_ = nullptr;
  for (size_t i = 0; i < units_.size(); ++i) {
    const int unit = static_cast<int>(i);
    finish_gather(unit);
    if (reshard_ != Reshard::never) free(unit);
  }
  reduction_ = {};
  for (const Flat& flat : flats_)
    for (size_t i = 0; i < flat.parameter->parameters(); ++i) flat.parameter->parameter(i).mutable_grad().reset();
}

void ShardedParameters::begin_pass(UnitOrder& order) {
  order_ = &order;
  read_by_node_.clear();
  for (GatheredUnit& unit : units_) {
    unit.in_use = false;
    unit.returns = 0;
  }
  if (const auto first = order.begin()) gather(*first);
}

void ShardedParameters::begin_forward() { begin_pass(forward_); }

void ShardedParameters::begin_backward() {
  begin_pass(backward_);
  for (Flat& flat : flats_) {
    flat.gradients = 0;
    flat.reduced = false;
  }
}

void ShardedParameters::end_backward() {
  for (size_t i = flats_.size(); i-- > 0;)
    if (flats_[i].parameter->trained() && !flats_[i].reduced) reduce(i);
  finish_reduction();
  check_order();
  order_ = nullptr;
  for (size_t i = 0; reshard_ != Reshard::never && i < units_.size(); ++i) free(static_cast<int>(i));
}

// --- gradients -------------------------------------------------------------------------------------------------------

void ShardedParameters::gradient_came(size_t flat) {
  if (++flats_[flat].gradients == flats_[flat].parameter->parameters()) reduce(flat);
}

void ShardedParameters::reduce(size_t flat) {
  const at::NoGradGuard no_grad;
  finish_reduction();
  note_order('r', flat);
  FlatParameter& parameter = *flats_[flat].parameter;
  flats_[flat].reduced = true;
  reduction_ = {flat, at::empty_like(parameter.shard()), parameter.take_gradients(), nullptr};
  reduction_.collective = collectives_.reduce_scatter(reduction_.part, reduction_.whole, parameter.name());
  ++counters_.reduces;
  counters_.reduced_bytes += parameter.whole_bytes();
}

void ShardedParameters::finish_reduction() {
  if (!reduction_.collective) return;
  const at::NoGradGuard no_grad;
  Reduction done = std::exchange(reduction_, {});
  wait(*done.collective);
  done.part.div_(collectives_.size());
  flats_[done.flat].parameter->add_gradient(done.part);
}

}  // namespace memtune::shard
