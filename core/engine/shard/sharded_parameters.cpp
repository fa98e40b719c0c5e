#include "core/engine/shard/sharded_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/engine/shard/units.h"

namespace memtune::shard {

namespace {

// The sum over the ranks may overflow float16 where the mean does not.
bool is_narrow(const at::Tensor& gradients) { return gradients.scalar_type() == at::kHalf; }

}  // namespace

struct ShardedParameters::Gradients final : torch::autograd::PostAccumulateGradHook {
  Gradients(ShardedParameters& owner, size_t flat) : owner(owner), flat(flat) {}
  void operator()(const at::Tensor& /*leaf*/) override { owner.on_gradient(flat); }

  ShardedParameters& owner;
  size_t flat;
};

ShardedParameters::ShardedParameters(const program::Program& program, const plan::ProgramFacts& facts,
                                     Collectives& collectives, const ReshardDtypeAndOffloadOptions& settings)
    : collectives_(collectives), settings_(settings) {
  if (settings.host_of) host_.emplace(*settings.host_of);
  for (const ParameterUnit& unit : find_units(program, facts)) add_unit(unit.name, unit.parameters);
  schedule::ParameterGatherBackend& memory = *this;
  schedule_.emplace(units_.size(), settings.reshard, memory);
  reads_.emplace(*schedule_);
  for (size_t unit = 0; unit < units_.size(); ++unit)
    for (const size_t flat : units_[unit].flats)
      reads_->add_unit(flats_[flat].parameter->storage(), static_cast<int>(unit));
}

ShardedParameters::~ShardedParameters() {
  if (host_) host_->stop();  // before the memory of running copies is freed
  for (const Flat& flat : flats_)
    for (size_t i = 0; flat.parameter->trained() && i < flat.parameter->parameters(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(flat.parameter->parameter(i), nullptr);
}

// Makes one flat tensor per dtype, and separate ones for trained and frozen parameters.
void ShardedParameters::add_unit(const std::string& name, const program::NamedTensors& parameters) {
  std::map<std::pair<at::ScalarType, bool>, program::NamedTensors> kinds;
  for (const auto& each : parameters) kinds[{each.second.scalar_type(), each.second.requires_grad()}].push_back(each);
  GatheredUnit unit{name, {}};
  for (const auto& [kind, same] : kinds) {
    const size_t number = flats_.size();
    auto flat = std::make_unique<FlatParameter>(name, same, collectives_.rank(), collectives_.size(), settings_,
                                                host_ ? &*host_ : nullptr);
    for (size_t i = 0; flat->trained() && i < flat->parameters(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(flat->parameter(i), std::make_unique<Gradients>(*this, number));
    pieces_.insert(pieces_.end(), flat->pieces().begin(), flat->pieces().end());
    unit.flats.push_back(number);
    flats_.emplace_back().parameter = std::move(flat);
  }
  units_.push_back(std::move(unit));
}

int64_t ShardedParameters::gathered_now_bytes() const {
  int64_t bytes = 0;
  for (const Flat& flat : flats_) bytes += flat.parameter->allocated() ? flat.parameter->whole_bytes() : 0;
  return bytes;
}

int64_t ShardedParameters::device_shard_bytes() const {
  int64_t bytes = 0;
  for (const Flat& flat : flats_) bytes += host_ ? 0 : static_cast<int64_t>(flat.parameter->shard().nbytes());
  return bytes;
}

std::vector<at::Tensor> ShardedParameters::device_gradients() const {
  std::vector<at::Tensor> gradients = {reduction_.part};
  if (host_) return gradients;
  for (const auto& [name, piece] : pieces_) gradients.push_back(piece.grad());
  return gradients;
}

std::vector<ShardedParameters::UnitSize> ShardedParameters::unit_sizes() const {
  std::vector<UnitSize> sizes;
  for (const GatheredUnit& unit : units_) {
    UnitSize& size = sizes.emplace_back(UnitSize{unit.name, 0});
    for (const size_t flat : unit.flats) size.bytes += flats_[flat].parameter->whole_bytes();
  }
  return sizes;
}

// --- gathering -------------------------------------------------------------------------------------------------------

void ShardedParameters::gather(int unit) {
  const at::NoGradGuard no_grad;
  for (const size_t number : units_[unit].flats) {
    Flat& flat = flats_[number];
    FlatParameter& parameter = *flat.parameter;
    if (!parameter.allocated()) parameter.allocate();
    note_order('g', number);
    PinnedTensorAllocatorAndCopier::DeviceCopy part{parameter.shard(), nullptr};
    if (host_) part = host_->copy_to_device(parameter.shard(), parameter.whole().device());
    if (host_) flat.device_copy = part.row;
    flat.gather = collectives_.all_gather(parameter.whole(), part.row, parameter.name(), part.ready);
    ++counters_.gathers;
    counters_.gathered_bytes += parameter.whole_bytes();
  }
}

void ShardedParameters::wait(int unit) {
  std::vector<PendingCollectivePtr> gathers;
  for (const size_t number : units_[unit].flats) {
    if (!flats_[number].gather) continue;
    gathers.push_back(std::exchange(flats_[number].gather, nullptr));
    gathers.back()->wait();
    flats_[number].device_copy.reset();
  }
  UnitGatherObserver* watcher = reads_->watcher();
  if (watcher && !gathers.empty()) watcher->gathered(unit, std::move(gathers));
}

void ShardedParameters::free(int unit) {
  for (const size_t number : units_[unit].flats) flats_[number].parameter->free();
}

// Uses the multiplier of Knuth's linear congruential generator.
void ShardedParameters::note_order(char kind, size_t flat) {
  const auto next =
      static_cast<uint64_t>(order_hash_) * 6364136223846793005u + flat * 256 + static_cast<uint64_t>(kind);
  order_hash_ = static_cast<int64_t>(next);
}

at::Tensor ShardedParameters::gather_from_ranks(int64_t number, const std::string& what) {
  const at::NoGradGuard no_grad;
  const at::Tensor own = at::full({1}, number, at::TensorOptions(at::kLong));
  const at::Tensor all = at::empty({collectives_.size()}, own.options());
  collectives_.all_gather(all, own, what)->wait();
  return all;
}

at::Tensor ShardedParameters::global_norm(const at::Tensor& here) {
  const at::NoGradGuard no_grad;
  const auto options = flats_.front().parameter->shard().options().dtype(at::kFloat);
  const at::Tensor own = here.defined() ? here.reshape({1}).to(options) : at::zeros({1}, options);
  const at::Tensor all = at::empty({collectives_.size()}, options);
  collectives_.all_gather(all, own, "the gradients' norm")->wait();
  return at::linalg_vector_norm(all, 2);
}

bool ShardedParameters::any_rank(bool here) { return gather_from_ranks(here ? 1 : 0, "a question").any().item<bool>(); }

// If the orders differ, two units of equal size would be swapped without an error.
void ShardedParameters::check_order() {
  if (!(gather_from_ranks(order_hash_, "the ranks' order") == order_hash_).all().item<bool>())
    throw Error(kOrdersDiffer);
}

// --- a step ----------------------------------------------------------------------------------------------------------

void ShardedParameters::begin_step() {
  schedule_->begin_step();
  drop_gradients();
}

void ShardedParameters::drop() {
  if (host_) host_->stop();
  for (Flat& flat : flats_) flat.device_copy.reset();
  schedule_->drop();
  drop_gradients();
}

// Also drops what a step that threw has left.
void ShardedParameters::drop_gradients() {
  reduction_ = {};
  for (Flat& flat : flats_) {
    flat.adds = false;
    for (size_t i = 0; i < flat.parameter->parameters(); ++i) flat.parameter->parameter(i).mutable_grad().reset();
  }
}

void ShardedParameters::begin_forward() { schedule_->begin_forward(); }

void ShardedParameters::begin_backward() {
  schedule_->begin_backward();
  for (Flat& flat : flats_) {
    flat.gradients = 0;
    flat.reduced = false;
  }
}

void ShardedParameters::end_backward() {
  for (size_t i = flats_.size(); i-- > 0;)
    if (flats_[i].parameter->trained() && !flats_[i].reduced) reduce(i);
  finish_reduction();
  if (host_) add_copied_gradients();
  check_order();
  schedule_->end_backward();
}

// --- gradients -------------------------------------------------------------------------------------------------------

void ShardedParameters::on_gradient(size_t flat) {
  if (++flats_[flat].gradients == flats_[flat].parameter->parameters()) reduce(flat);
}

void ShardedParameters::reduce(size_t flat) {
  const at::NoGradGuard no_grad;
  finish_reduction();
  note_order('r', flat);
  FlatParameter& parameter = *flats_[flat].parameter;
  flats_[flat].reduced = true;
  reduction_.flat = flat;
  reduction_.whole = parameter.take_gradients();
  if (is_narrow(reduction_.whole)) reduction_.whole.div_(collectives_.size());
  reduction_.part = at::empty(parameter.shard().sizes(), reduction_.whole.options());
  reduction_.collective = collectives_.reduce_scatter(reduction_.part, reduction_.whole, parameter.name());
  ++counters_.reduces;
  counters_.reduced_bytes += static_cast<int64_t>(reduction_.whole.nbytes());
}

void ShardedParameters::finish_reduction() {
  if (!reduction_.collective) return;
  const at::NoGradGuard no_grad;
  Reduction done = std::exchange(reduction_, {});
  done.collective->wait();
  device::free_bytes(done.whole);  // the process group may hold the tensor longer
  Flat& flat = flats_[done.flat];
  if (!is_narrow(done.part)) done.part.div_(collectives_.size());
  const at::Tensor part = done.part.to(flat.parameter->shard().scalar_type());
  if (host_)
    copy_part_to_host(flat, part);
  else
    flat.parameter->add_gradient(part);
}

// Copies to the gradients of the pieces, or next to them until they can be added.
void ShardedParameters::copy_part_to_host(Flat& flat, const at::Tensor& part) {
  const bool more = flat.parameter->has_gradient();
  at::Tensor& row = flat.on_host[more];
  if (!row.defined()) row = host_->make(part.numel(), part.scalar_type());
  host_->copy_to_host(part, row);
  flat.adds = more;
  if (!more) flat.parameter->add_gradient(row);
}

void ShardedParameters::add_copied_gradients() {
  host_->await_copies();
  for (Flat& flat : flats_)
    if (std::exchange(flat.adds, false)) flat.parameter->add_gradient(flat.on_host[1]);
}

}  // namespace memtune::shard
