#include "core/model/frontend/adapter/lora_factor_provider.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <string_view>

#include "core/base/error.h"
#include "core/model/frontend/safetensors.h"

namespace memtune::frontend {

LoraFactorProvider::LoraFactorProvider(const model::LoraConfig& lora, int64_t seed, bool shapes_only)
    : lora_(lora), generator_(at::globalContext().defaultGenerator(c10::kCPU).clone()) {
  generator_.set_current_seed(static_cast<uint64_t>(seed));
  if (!lora.weights.empty())
    for (auto& [name, tensor] : read_safetensors(lora.weights, shapes_only ? c10::kMeta : c10::kCPU))
      given_[name] = tensor;
}

at::Tensor LoraFactorProvider::make(const std::string& path, const char* which, at::IntArrayRef shape,
                                    at::TensorOptions options) {
  if (lora_.weights.empty() && options.device().is_meta()) return at::empty(shape, options).requires_grad_();
  if (lora_.weights.empty()) return drawn(which, shape).to(options).requires_grad_();
  const at::Tensor* const found = find(path, which);
  if (!found) throw UsageError(file() + " has no tensor '" + kLoraPrefix + path + which + "'");
  check_shape(path + which, *found, shape);
  return found->to(options).requires_grad_();
}

void LoraFactorProvider::load_saved(const std::string& name, const at::Tensor& parameter) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return;
  const std::string path = name.substr(0, dot), last = name.substr(dot);
  const at::Tensor* found = find(path, ".base_layer" + last);
  if (!found) found = find(path, last);
  if (!found) return;
  check_shape(name, *found, parameter.sizes());
  const at::NoGradGuard no_grad;
  at::Tensor(parameter).copy_(*found);
}

void LoraFactorProvider::check_all_used() const {
  for (const auto& [name, tensor] : given_)
    if (!used_.contains(name))
      throw UsageError(file() + " has '" + name + "', which belongs to no layer that is adapted here");
}

// By default the first factor of an embedding, and the second of a linear layer, starts at zero.
at::Tensor LoraFactorProvider::drawn(const char* which, at::IntArrayRef shape) {
  const std::string_view name = which;
  const bool of_embedding = name == kEmbeddingFactors.down || name == kEmbeddingFactors.up;
  const bool is_first = name == kEmbeddingFactors.down || name == kLinearFactors.down;
  const bool noise = lora_.start == model::LoraInit::noise;
  if (!noise && is_first == of_embedding) return at::zeros(shape, at::kFloat);
  at::Tensor factor = at::empty(shape, at::kFloat);
  if (of_embedding) return factor.normal_(0, 1, generator_);
  if (lora_.start == model::LoraInit::gaussian)
    return factor.normal_(0, 1.0 / static_cast<double>(shape[0]), generator_);
  const double bound = 1 / std::sqrt(static_cast<double>(shape[1]));
  return factor.uniform_(-bound, bound, generator_);
}

// Paths have additional leading parts if the model was recorded inside another one.
const at::Tensor* LoraFactorProvider::find(std::string path, const std::string& which) {
  auto found = given_.find(kLoraPrefix + path + which);
  for (size_t dot = path.find('.'); found == given_.end() && dot != std::string::npos; dot = path.find('.')) {
    path.erase(0, dot + 1);
    found = given_.find(kLoraPrefix + path + which);
  }
  if (found == given_.end()) return nullptr;
  used_.insert(found->first);
  return &found->second;
}

void LoraFactorProvider::check_shape(const std::string& name, const at::Tensor& found, at::IntArrayRef shape) const {
  if (found.sizes() != shape)
    throw UsageError(c10::str("'", kLoraPrefix, name, "' of ", file(), " is ", found.sizes(), ", here ", shape));
}

}  // namespace memtune::frontend
