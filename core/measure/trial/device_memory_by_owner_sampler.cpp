#include "core/measure/trial/device_memory_by_owner_sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace memtune::trial {
namespace {

using trace::MemoryOwnerKind;

enum Fixed : size_t { kParameters, kOptimizer, kInputs, kGradients, kAhead, kOutside, kFirstBlock };

// A sparse gradient has indices and values. Zeros made by autograd have no memory.
int64_t bytes_of(const at::Tensor& gradient) {
  if (gradient.layout() == at::kSparse)
    return static_cast<int64_t>(gradient._indices().nbytes() + gradient._values().nbytes());
  if (gradient.layout() != at::kStrided || gradient._is_zerotensor()) return 0;
  return static_cast<int64_t>(gradient.nbytes());
}

}  // namespace

DeviceMemoryByOwnerSampler::DeviceMemoryByOwnerSampler(const plan::ProgramFacts& facts, NamedParameters parameters,
                                                       int64_t optimizer_bytes,
                                                       const step::ActivationPlanExecutor& executor,
                                                       int64_t allocated_bytes)
    : facts_(facts), parameters_(std::move(parameters)), executor_(executor), optimizer_bytes_(optimizer_bytes) {
  owners_ = {{MemoryOwnerKind::parameters, "parameters"},        {MemoryOwnerKind::optimizer, "optimizer"},
             {MemoryOwnerKind::inputs, "inputs and buffers"},    {MemoryOwnerKind::gradients, "gradients"},
             {MemoryOwnerKind::prefetched, "copied back ahead"}, {MemoryOwnerKind::outside, "outside of blocks"}};
  for (int32_t block = 0; const auto& facts_of_block : facts.blocks)
    owners_.push_back({MemoryOwnerKind::block, facts_of_block.region, block++});
  for (const auto& [name, parameter] : parameters_) parameter_bytes_ += static_cast<int64_t>(parameter.nbytes());
  input_bytes_ = std::max<int64_t>(0, allocated_bytes - parameter_bytes_ - optimizer_bytes_);
}

std::vector<int64_t> DeviceMemoryByOwnerSampler::bytes() const {
  std::vector<int64_t> bytes(owners_.size(), 0);
  bytes[kParameters] = parameter_bytes_;
  bytes[kOptimizer] = optimizer_bytes_;
  bytes[kInputs] = input_bytes_;
  for (const auto& [name, parameter] : parameters_)
    if (parameter.grad().defined()) bytes[kGradients] += bytes_of(parameter.grad());
  bytes[kAhead] = executor_.offload().prefetched_bytes();
  executor_.values().visit_held([&](const autograd::SavedStorage& value, int64_t held) {
    const int block = facts_.ops[value.key().op].block;
    bytes[block < 0 ? kOutside : kFirstBlock + static_cast<size_t>(block)] += held;
  });
  return bytes;
}

}  // namespace memtune::trial
