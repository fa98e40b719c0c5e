#include "core/model/frontend/transformers/weights.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/frontend/safetensors.h"

namespace memtune::frontend {
namespace {

constexpr int64_t kNoise = 1048573;  // a prime, so that rows of a weight do not repeat

}  // namespace

TransformersWeightProvider::TransformersWeightProvider(const std::vector<std::filesystem::path>& files,
                                                       const model::TransformersConfig& config,
                                                       at::TensorOptions options, int64_t seed)
    : options_(options), deviation_(config.weight_deviation), seed_(seed) {
  for (const auto& path : files) {
    files_.push_back(std::make_unique<safetensors::Reader>(path));
    for (const safetensors::TensorEntry& entry : files_.back()->entries())
      places_[entry.name] = {files_.back().get(), &entry};
  }
  const model::TransformersFamilyConventions& family = config.family;
  renamed_ = {{std::string(family.modules.base) + ".", ""},  // saved without the head
              {"lm_head.", std::string(family.modules.stored_head) + "."},
              {".mlp.", c10::str(".", family.experts.stored, ".")}};
  const std::string base = std::string(family.modules.base) + ".";
  for (const std::string text : {"language_model.", "text_model."})
    renamed_.insert(renamed_.end(), {{base, base + text}, {base, text + base}, {"lm_head.", text + "lm_head."}});
  for (const model::WeightRenaming& other : family.stored_names) renamed_.emplace_back(other.name, other.stored);
}

at::Tensor TransformersWeightProvider::make(const std::string& name, at::IntArrayRef shape,
                                            SyntheticWeightInitialization filling) {
  return (files_.empty() ? synthetic(shape, filling) : read(name, shape, options_)).requires_grad_();
}

at::Tensor TransformersWeightProvider::make_or_add(const std::string& name, at::IntArrayRef shape) {
  return files_.empty() || find(name) ? make(name, shape, SyntheticWeightInitialization::noise)
                                      : synthetic(shape, SyntheticWeightInitialization::noise).requires_grad_();
}

at::Tensor TransformersWeightProvider::make_in_float(const std::string& name, at::IntArrayRef shape,
                                                     SyntheticWeightInitialization filling) {
  const at::TensorOptions options = options_.dtype(at::kFloat);
  return (files_.empty() ? synthetic(shape, filling).to(options) : read(name, shape, options)).requires_grad_();
}

at::Tensor TransformersWeightProvider::make_buffer(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype,
                                                   double value) {
  const at::TensorOptions options = options_.dtype(dtype);
  return files_.empty() ? at::full(shape, value, options) : read(name, shape, options);
}

at::Tensor TransformersWeightProvider::make_stacked(const std::string& name, at::IntArrayRef shape,
                                                    const std::vector<std::string_view>& parts) {
  if (files_.empty() || find(name)) return make(name, shape, SyntheticWeightInitialization::noise);
  at::Tensor all = at::empty(shape, options_);
  const std::string path = name.substr(0, name.rfind('.'));
  const int64_t rows = shape[1] / static_cast<int64_t>(parts.size());
  for (int64_t expert = 0; expert < shape[0]; ++expert)
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string one = path + "." + std::to_string(expert) + "." + std::string(parts[i]) + ".weight";
      all[expert].narrow(0, static_cast<int64_t>(i) * rows, rows).copy_(read(one, {rows, shape[2]}, options_));
    }
  return all.requires_grad_();
}

const TransformersWeightProvider::Place* TransformersWeightProvider::find(const std::string& name) {
  const auto found = places_.find(name);
  if (found != places_.end()) return &found->second;
  for (const auto& [ours, theirs] : renamed_)
    if (const size_t at = name.find(ours); at != std::string::npos) {
      const auto other = places_.find(name.substr(0, at) + theirs + name.substr(at + ours.size()));
      if (other != places_.end()) return &other->second;
    }
  return nullptr;
}

const TransformersWeightProvider::Place& TransformersWeightProvider::place_of(const std::string& name) {
  if (const Place* const place = find(name)) return *place;
  throw UsageError("the model's safetensors files have no tensor '" + name + "'");
}

at::Tensor TransformersWeightProvider::read(const std::string& name, at::IntArrayRef shape, at::TensorOptions options) {
  const Place& place = place_of(name);
  const safetensors::TensorEntry& entry = *place.entry;
  if (at::IntArrayRef(entry.shape) != shape)
    throw UsageError("'" + name + "' of the model's safetensors files is " + c10::str(at::IntArrayRef(entry.shape)) +
                     ", by its config " + c10::str(shape));
  asked_for_.insert(entry.name);
  if (options.device().is_meta()) return at::empty(shape, options);
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(scalar_type(entry.dtype)));
  place.file->read(entry, static_cast<char*>(tensor.data_ptr()));
  return tensor.to(options);
}

at::Tensor TransformersWeightProvider::synthetic(at::IntArrayRef shape, SyntheticWeightInitialization filling) {
  if (options_.device().is_meta()) return at::empty(shape, options_);
  if (filling == SyntheticWeightInitialization::zeros) return at::zeros(shape, options_);
  if (filling == SyntheticWeightInitialization::ones) return at::ones(shape, options_);
  if (!noise_.defined()) {
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU).clone();
    generator.set_current_seed(static_cast<uint64_t>(seed_));
    noise_ = at::empty({kNoise}, at::kFloat).normal_(0, deviation_, generator).to(options_);
  }
  at::Tensor weight = at::empty(shape, options_);
  const at::Tensor flat = weight.view(-1);
  for (int64_t begin = 0; begin < flat.size(0); begin += kNoise) {
    const int64_t count = std::min(kNoise, flat.size(0) - begin);
    flat.slice(0, begin, begin + count).copy_(noise_.slice(0, 0, count));
  }
  return weight;
}

std::string TransformersWeightProvider::note() const {
  if (files_.empty())
    return "weights are random, because there is no model.safetensors beside the config: that changes neither "
           "memory nor time";
  std::vector<std::string> others;
  for (const auto& [name, place] : places_)
    if (!asked_for_.contains(name)) others.push_back(name);
  if (others.empty()) return "";
  return std::to_string(others.size()) + " of the files' tensors are not in the model: '" + others.front() + "'" +
         (others.size() > 1 ? ", ..." : "");
}

}  // namespace memtune::frontend
