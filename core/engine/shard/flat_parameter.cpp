#include "core/engine/shard/flat_parameter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace memtune::shard {
namespace {

constexpr int64_t kAlignedBytes = 64;  // alignment of each parameter, like an allocator's

// The requested dtype if the tensor is of a floating-point dtype.
at::ScalarType of_floating(std::optional<at::ScalarType> dtype, const at::Tensor& tensor) {
  return dtype && tensor.is_floating_point() ? *dtype : tensor.scalar_type();
}

void check(const std::string& name, const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || !tensor.has_storage() || tensor.is_quantized() ||
      !tensor.is_non_overlapping_and_dense())
    throw UsageError("the parameter '" + name + "' is no dense tensor: it cannot be sharded");
}

}  // namespace

FlatParameter::FlatParameter(std::string name, const program::NamedTensors& parameters, int rank, int ranks,
                             const ReshardDtypeAndOffloadOptions& settings, PinnedTensorAllocatorAndCopier* host)
    : name_(std::move(name)),
      trained_(parameters.front().second.requires_grad()),
      reduce_dtype_(of_floating(settings.reduce_dtype, parameters.front().second)) {
  const at::NoGradGuard no_grad;
  lay_out(parameters, ranks);
  take_shard(rank, settings, host);
  move_members();
  free();
}

FlatParameter::FlatParameter(std::string name, const program::NamedTensors& parameters,
                             program::HostWeightsWhileModelLoads* weights)
    : name_(std::move(name)),
      trained_(parameters.front().second.requires_grad()),
      reduce_dtype_(parameters.front().second.scalar_type()) {
  const at::NoGradGuard no_grad;
  lay_out(parameters, 1, weights);
  pieces_ = parameters;
  shard_ = whole_;
  move_members();
}

void FlatParameter::lay_out(const program::NamedTensors& parameters, int ranks,
                            program::HostWeightsWhileModelLoads* weights) {
  const int64_t aligned = kAlignedBytes / parameters.front().second.element_size();
  for (const auto& [name, tensor] : parameters) {
    check(name, tensor);
    members_.push_back({name, tensor, elements_});
    elements_ += round_up(tensor.numel(), aligned);
  }
  shard_elements_ = round_up((elements_ + ranks - 1) / ranks, aligned);
  elements_ = shard_elements_ * ranks;
  whole_ = at::zeros({elements_}, parameters.front().second.options().requires_grad(false));
  whole_bytes_ = static_cast<int64_t>(whole_.storage().nbytes());
  for (const Member& member : members_)
    within(whole_, member).copy_(weights ? weights->take(member.tensor) : member.tensor);
}

// A parameter that is a view, such as a packed weight, holds its base, and with it the old memory.
void FlatParameter::move_members() {
  for (Member& member : members_) {
    if (member.tensor.is_view()) {
      member.tensor.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
      member.tensor.requires_grad_(trained_);
    }
    member.tensor.set_data(within(whole_, member));
  }
}

void FlatParameter::take_shard(int rank, const ReshardDtypeAndOffloadOptions& settings,
                               PinnedTensorAllocatorAndCopier* host) {
  const int64_t begin = rank * shard_elements_, end = begin + shard_elements_;
  const at::ScalarType dtype = trained_ ? of_floating(settings.dtype, whole_) : whole_.scalar_type();
  shard_ = host ? host->make(shard_elements_, dtype) : at::empty({shard_elements_}, whole_.options().dtype(dtype));
  shard_.copy_(whole_.narrow(0, begin, shard_elements_));
  for (const Member& member : members_) {
    const int64_t from = std::max(begin, member.begin), to = std::min(end, member.begin + member.tensor.numel());
    if (from >= to) continue;
    at::Tensor piece = shard_.narrow(0, from - begin, to - from).detach();
    pieces_.emplace_back(member.name, piece.requires_grad_(trained_));
    piece_begins_.push_back(from - begin);
    piece_begins_in_parameters_.push_back(from - member.begin);
  }
}

at::Tensor FlatParameter::within(const at::Tensor& row, const Member& member) const {
  return row.as_strided(member.tensor.sizes(), member.tensor.strides(), member.begin);
}

std::vector<at::Tensor> FlatParameter::views_in(const at::Tensor& row) const {
  std::vector<at::Tensor> views;
  for (const Member& member : members_) views.push_back(within(row, member));
  return views;
}

at::Tensor FlatParameter::take_gradients() {
  const at::NoGradGuard no_grad;
  // Padding between parameters stays uninitialized: no piece contains it.
  at::Tensor row = at::empty({elements_}, whole_.options().dtype(reduce_dtype_));
  std::vector<at::Tensor> places, gradients;
  for (const Member& member : members_) {
    at::Tensor& gradient = member.tensor.mutable_grad();
    if (!gradient.defined()) {
      within(row, member).zero_();
      continue;
    }
    if (gradient.layout() != at::kStrided)
      throw UsageError("the gradient of '" + member.name +
                       "' is sparse, and sharded ones are dense: make it dense (embeddings: sparse=False)");
    places.push_back(within(row, member));
    gradients.push_back(std::exchange(gradient, {}));
  }
  // One kernel; single copies would take a driver call each.
  if (!places.empty()) at::_foreach_copy_(places, gradients);
  return row;
}

bool FlatParameter::has_gradient() const {
  return std::ranges::any_of(pieces_, [](const auto& piece) { return piece.second.grad().defined(); });
}

void FlatParameter::add_gradient(const at::Tensor& of_shard) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const at::Tensor& piece = pieces_[i].second;
    const at::Tensor part = of_shard.narrow(0, piece_begins_[i], piece.numel());
    if (piece.grad().defined())
      piece.grad().add_(part);
    else
      piece.mutable_grad() = part;
  }
}

}  // namespace memtune::shard
