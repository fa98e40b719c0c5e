#include "core/engine/step/forward_op_allocation_and_flops_profiler.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/engine/autograd/casts.h"
#include "core/engine/autograd/view_geometry.h"
#include "core/model/ops/autocast.h"
#include "core/model/ops/linear_cross_entropy.h"
#include "core/model/program/tensors.h"

namespace memtune::step {

using program::Stack;

namespace {

struct Dropped final : autograd::PackedSavedTensor {
  at::Tensor unpack() override { throw Error("a survey has no backward"); }
};

bool has_bytes(const at::Tensor& tensor) { return tensor.defined() && autograd::is_plain(tensor); }

// aten::convolution and aten::_convolution have an argument `transposed`.
constexpr size_t kTransposed = 6;

bool is_transposed(const plan::ProgramOpFacts& fact, const Stack& inputs) {
  if (plan::traits_of(fact.name).transposed) return true;
  const bool told = fact.name.ends_with("convolution") && inputs.size() > kTransposed;
  return told && inputs[kTransposed].isBool() && inputs[kTransposed].toBool();
}

// Two flops per multiply-add: per output element, or in total if the inputs alone determine it.
struct Flops {
  double per_element = 0;
  double in_all = 0;
};

Flops convolution_flops(const at::Tensor& input, const at::Tensor& weight, bool transposed) {
  if (!weight.defined() || weight.dim() < 2) return {};
  const double per_element = 2.0 * static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  if (transposed) return {0, per_element * static_cast<double>(input.numel())};
  return {per_element, 0};
}

// Of the tokens of a loss that holds its output layer.
double computed_share(const plan::ProgramOpFacts& fact, const std::vector<at::Tensor>& inputs) {
  if (!plan::traits_of(fact.name).leaves_out_ignored || !inputs[0].is_cuda()) return 1;
  return inputs.back().ne(ops::kIgnoredLabel).to(at::kDouble).mean().item<double>();
}

Flops flops_of(const plan::ProgramOpFacts& fact, const Stack& inputs) {
  const bool multiplies = plan::is_matmul(fact.op_class) || fact.op_class == plan::OpClass::attention;
  if (!multiplies) return {};
  const auto tensors = program::tensors_in(inputs);
  const auto data = static_cast<size_t>(plan::traits_of(fact.name).data);
  if (tensors.size() <= data || !tensors[data].defined() || tensors[data].dim() == 0) return {};
  if (fact.op_class == plan::OpClass::attention) {  // QK^T and PV; causal attention needs half of it
    const bool usual = tensors.size() > 1 && tensors[1].defined() && tensors[1].dim() > 1;
    return {usual ? 4.0 * static_cast<double>(tensors[1].size(-2)) : 0, 0};
  }
  if (plan::traits_of(fact.name).holds_layer && tensors.size() > 1)  // inputs: hidden, weight, ..., labels
    return {0, 2.0 * computed_share(fact, tensors) * static_cast<double>(tensors[0].numel()) *
                   static_cast<double>(tensors[1].size(0))};
  if (fact.op_class == plan::OpClass::convolution)
    return tensors.size() > 1 ? convolution_flops(tensors[0], tensors[1], is_transposed(fact, inputs)) : Flops{};
  return {2.0 * static_cast<double>(tensors[data].size(-1)), 0};
}

// Uses the narrowest dtype among input and output. Under autocast the input is wider than the dtype that multiplies,
// and a loss returns a wider one.
void note_dtype(plan::ProgramOpFacts& fact, const at::Tensor& tensor) {
  struct Dtype {
    at::ScalarType type;
    const char* name;
  };
  constexpr Dtype kWidestFirst[] = {
      {at::kDouble, "float64"}, {at::kFloat, "float32"}, {at::kHalf, "float16"}, {at::kBFloat16, "bfloat16"}};
  bool wider = fact.dtype.empty();
  for (const auto& [type, name] : kWidestFirst) {
    if (wider && type == tensor.scalar_type()) fact.dtype = name;
    wider = wider || fact.dtype == name;
  }
}

}  // namespace

ForwardOpAllocationAndFlopsProfiler::ForwardOpAllocationAndFlopsProfiler(const program::Program& program,
                                                                         plan::ProgramFacts& facts,
                                                                         c10::DeviceType device)
    : facts_(facts), device_(device) {
  for (plan::ProgramOpFacts& op : facts_.ops) {
    op.output_bytes.assign(op.outputs.size(), 0);
    op.output_saved.assign(op.outputs.size(), false);
    op.private_bytes = 0;
    op.flops = 0;
    op.dtype.clear();
  }
  for (const auto& [name, parameter] : program.state.parameters) note(parameter, -1, 0);
}

bool ForwardOpAllocationAndFlopsProfiler::is_new(const at::Tensor& tensor) const {
  const auto known = values_.find(tensor.storage().unsafeGetStorageImpl());
  return known == values_.end() || known->second.storage.expired();
}

void ForwardOpAllocationAndFlopsProfiler::note(const at::Tensor& tensor, int op, size_t output) {
  const Impl impl = tensor.storage().unsafeGetStorageImpl();
  values_.erase(impl);
  values_.emplace(impl, Value{tensor.storage().getWeakStorageImpl(), op, output});
}

void ForwardOpAllocationAndFlopsProfiler::before(const program::Op& op, const Stack& inputs) {
  op_ = &op;
  autocast_ = ops::AutocastState::now(device_).enabled;
  saved_.clear();
  for (const at::Tensor& tensor : program::tensors_in(inputs))
    if (has_bytes(tensor) && is_new(tensor)) note(tensor, -1, 0);
  plan::ProgramOpFacts& fact = facts_.ops[op.id];
  const Flops flops = flops_of(fact, inputs);
  fact.flops += flops.in_all;
  factor_ = flops.per_element;
  if (flops.in_all + flops.per_element > 0)
    note_dtype(fact, program::tensors_in(inputs)[static_cast<size_t>(plan::traits_of(fact.name).data)]);
}

void ForwardOpAllocationAndFlopsProfiler::after(const program::Op& op, const Stack& outputs) {
  plan::ProgramOpFacts& fact = facts_.ops[op.id];
  for (size_t i = 0; i < outputs.size() && i < fact.output_bytes.size(); ++i)
    for (const at::Tensor& tensor : program::tensors_in({outputs[i]})) {
      if (!has_bytes(tensor)) continue;
      if (i == 0) fact.flops += factor_ * static_cast<double>(tensor.numel());
      if (i == 0 && fact.flops > 0) note_dtype(fact, tensor);
      if (!is_new(tensor)) continue;
      fact.output_bytes[i] += static_cast<int64_t>(tensor.storage().nbytes());
      note(tensor, op.id, i);
    }
  for (const at::Storage& storage : saved_) note_saved(storage);
  saved_.clear();
  op_ = nullptr;
}

void ForwardOpAllocationAndFlopsProfiler::note_saved(const at::Storage& storage) {
  const auto known = values_.find(storage.unsafeGetStorageImpl());
  if (known == values_.end() || known->second.storage.expired()) {
    facts_.ops[op_->id].private_bytes += static_cast<int64_t>(storage.nbytes());
  } else if (const Value& value = known->second; value.op >= 0) {
    facts_.ops[value.op].output_saved[value.output] = true;
  }
}

std::unique_ptr<autograd::PackedSavedTensor> ForwardOpAllocationAndFlopsProfiler::pack(const at::Tensor& tensor) {
  if (op_ && has_bytes(tensor) && !(autocast_ && autograd::is_cast_parameter(tensor))) {
    const auto same = [&](const at::Storage& storage) { return storage.is_alias_of(tensor.storage()); };
    if (std::none_of(saved_.begin(), saved_.end(), same)) saved_.push_back(tensor.storage());
  }
  return std::make_unique<Dropped>();
}

}  // namespace memtune::step
