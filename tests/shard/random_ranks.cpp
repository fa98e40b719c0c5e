// The part of a random program's Subject that runs as one of several ranks.
#include <ATen/ATen.h>

#include "tests/shard/joined_gradients.h"
#include "tests/support/random_drive.h"
#include "tests/support/rounding.h"
#include "tests/support/training.h"

namespace memtune::tests {
namespace {

at::Tensor floats(const std::string& bytes) {
  return at::from_blob(const_cast<char*>(bytes.data()), {static_cast<int64_t>(bytes.size() / sizeof(float))}).clone();
}

std::string difference(const Seen& expected, const Seen& seen, const std::map<std::string, at::Tensor>& noise) {
  for (size_t i = 0; i < std::min(expected.size(), seen.size()); ++i) {
    const auto& [name, bytes] = expected[i];
    if (seen[i].first != name) return seen[i].first + " instead of " + name + ": " + seen[i].second;
    if (seen[i].second == bytes) continue;
    const auto allowed = noise.find(name);
    if (allowed == noise.end() || seen[i].second.size() != bytes.size()) return name + " differs";
    const at::Tensor a = floats(bytes), b = floats(seen[i].second);
    const at::Tensor apart = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
    const at::Tensor right = (apart <= allowed->second).logical_or(at::isnan(a).logical_and(at::isnan(b)));
    if (!right.all().item<bool>())
      return name + " differs by " + std::to_string(apart.max().item<double>() / a.abs().max().item<double>()) +
             " of its largest";
  }
  return expected.size() == seen.size() ? "" : "less or more was seen";
}

}  // namespace

void Subject::shard(shard::ReshardPolicy reshard) {
  const at::NoGradGuard no_grad;
  for (const auto& [tensor, before] : state_) tensor.copy_(before);
  sharded_ = std::make_unique<shard::ShardedParameters>(program_, facts_, *rank_.group,
                                                        shard::ReshardDtypeAndOffloadOptions{.reshard = reshard});
  parameters_ = sharded_->pieces();
  state_.clear();
  expected_.clear();
  for (const at::Tensor& buffer : model_.module.buffers()) state_.emplace_back(buffer, buffer.clone());
  for (const auto& [name, piece] : parameters_) state_.emplace_back(piece, piece.detach().clone());
}

// A sum of two numbers does not depend on the order. A sum of n numbers does, but it differs from the true sum by at
// most (n - 1) u times the sum of their sizes, with u = 2^-24 for float32. The division rounds once more, and so does
// the mean that the test compares with.
void Subject::take_mean_gradients() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> own;
  for (const auto& [name, parameter] : parameters_)
    own.push_back((parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter)).flatten());
  const at::Tensor all = rows_of_all(*rank_.group, at::cat(own)), exact = all.to(at::kDouble);
  const int64_t ranks = all.size(0);
  const at::Tensor mean = ranks == 2 ? (all[0] + all[1]) / 2 : exact.mean(0).to(at::kFloat);
  const double unit = ranks == 2 ? 0 : static_cast<double>(ranks + 1) * unit_roundoff(at::kFloat);
  const at::Tensor noise = exact.abs().mean(0) * unit;
  int64_t begin = 0;
  for (auto& [name, parameter] : parameters_) {
    if (parameter.requires_grad()) {
      parameter.mutable_grad() = mean.narrow(0, begin, parameter.numel()).view(parameter.sizes()).clone();
      noise_["gradient of " + name] = noise.narrow(0, begin, parameter.numel());
    }
    begin += parameter.numel();
  }
}

NamedTensors Subject::joined_gradients() const {
  if (sharded_) return tests::joined_gradients(*rank_.group, program_.state.parameters, parameters_);
  NamedTensors joined;
  for (const auto& [name, parameter] : parameters_)
    if (parameter.requires_grad()) joined.emplace_back(name, parameter.grad().flatten());
  return joined;
}

std::string Subject::failure_beside(Subject& whole, int steps) {
  const Seen expected = whole.drive_joined(steps), seen = drive_joined(steps);
  return difference(expected, seen, whole.noise_);
}

}  // namespace memtune::tests
