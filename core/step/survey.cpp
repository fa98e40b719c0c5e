#include "core/step/survey.h"

#include <ATen/autocast_mode.h>

#include <algorithm>

#include "core/autograd/casts.h"
#include "core/autograd/geometry.h"
#include "core/base/error.h"
#include "core/checkpoint/recompute.h"

namespace memtune::step {

using torch::jit::Stack;

namespace {

struct Dropped final : autograd::Ticket {
  at::Tensor unpack() override { throw Error("a survey has no backward"); }
};

// Multiply-adds times two that one element of the result takes.
double flops_per_element(const config::OpFacts& fact, const Stack& inputs) {
  const auto tensors = checkpoint::tensors_in(inputs);
  if (tensors.empty() || !tensors[0].defined() || tensors[0].dim() == 0) return 0;
  if (fact.attention) {  // query by key, then by value; half of it lies above a causal diagonal
    const bool usual = tensors.size() > 1 && tensors[1].defined() && tensors[1].dim() > 1;
    return usual ? 4.0 * static_cast<double>(tensors[1].size(-2)) : 0;
  }
  if (!fact.matmul) return 0;
  if (fact.name.find("conv") != std::string::npos && tensors.size() > 1 && tensors[1].dim() > 1)
    return 2.0 * static_cast<double>(tensors[1].numel()) / static_cast<double>(tensors[1].size(0));
  const bool added = fact.name.find("addmm") != std::string::npos || fact.name.find("baddbmm") != std::string::npos;
  const at::Tensor& left = tensors[added && tensors.size() > 1 ? 1 : 0];
  return left.dim() == 0 ? 0 : 2.0 * static_cast<double>(left.size(-1));
}

}  // namespace

Survey::Survey(const program::Program& program, config::ProgramFacts& facts, c10::DeviceType device)
    : facts_(facts), device_(device) {
  for (config::OpFacts& op : facts_.ops) {
    op.output_bytes.assign(op.outputs.size(), 0);
    op.output_saved.assign(op.outputs.size(), false);
    op.private_bytes = 0;
    op.flops = 0;
  }
  for (const at::Tensor& parameter : program.module.parameters()) note(parameter, -1, 0);
}

bool Survey::is_new(const at::Tensor& tensor) const {
  const auto known = memories_.find(tensor.storage().unsafeGetStorageImpl());
  return known == memories_.end() || known->second.storage.expired();
}

void Survey::note(const at::Tensor& tensor, int op, size_t output) {
  const Impl impl = tensor.storage().unsafeGetStorageImpl();
  memories_.erase(impl);
  memories_.emplace(impl, Memory{tensor.storage().getWeakStorageImpl(), op, output});
}

void Survey::before(const program::Op& op, const Stack& inputs) {
  op_ = &op;
  autocast_ = at::autocast::is_autocast_enabled(device_);
  saved_.clear();
  for (const at::Tensor& tensor : checkpoint::tensors_in(inputs))
    if (tensor.defined() && autograd::is_plain(tensor) && is_new(tensor)) note(tensor, -1, 0);
  factor_ = flops_per_element(facts_.ops[op.id], inputs);
}

void Survey::after(const program::Op& op, const Stack& outputs) {
  config::OpFacts& fact = facts_.ops[op.id];
  for (size_t i = 0; i < outputs.size() && i < fact.output_bytes.size(); ++i)
    for (const at::Tensor& tensor : checkpoint::tensors_in({outputs[i]})) {
      if (!tensor.defined() || !autograd::is_plain(tensor)) continue;
      if (i == 0) fact.flops += factor_ * static_cast<double>(tensor.numel());
      if (!is_new(tensor)) continue;
      fact.output_bytes[i] += static_cast<int64_t>(tensor.storage().nbytes());
      note(tensor, op.id, i);
    }
  for (const at::Storage& storage : saved_) note_saved(storage);
  saved_.clear();
  op_ = nullptr;
}

void Survey::note_saved(const at::Storage& storage) {
  const auto known = memories_.find(storage.unsafeGetStorageImpl());
  if (known == memories_.end() || known->second.storage.expired()) {
    facts_.ops[op_->id].private_bytes += static_cast<int64_t>(storage.nbytes());
  } else if (const Memory& memory = known->second; memory.op >= 0) {
    facts_.ops[memory.op].output_saved[memory.output] = true;
  }
}

std::unique_ptr<autograd::Ticket> Survey::pack(const at::Tensor& tensor) {
  if (op_ && tensor.defined() && autograd::is_plain(tensor) && !(autocast_ && autograd::is_cast_parameter(tensor))) {
    const auto same = [&](const at::Storage& storage) { return storage.is_alias_of(tensor.storage()); };
    if (std::none_of(saved_.begin(), saved_.end(), same)) saved_.push_back(tensor.storage());
  }
  return std::make_unique<Dropped>();
}

}  // namespace memtune::step
