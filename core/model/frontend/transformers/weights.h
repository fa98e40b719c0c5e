// Weights of a transformers model, by transformers' names: from the safetensors files next to its config.json, or
// synthetic if there are none. On the meta device they have only shapes, and only the files' headers are read.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/safetensors/reader.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::frontend {

enum class SyntheticWeightInitialization { noise, zeros, ones };  // initial values of synthetic weights

class TransformersWeightProvider {
 public:
  // Weights get the dtype of `options`, whatever the files have. Throws UsageError for missing or invalid files.
  TransformersWeightProvider(const std::vector<std::filesystem::path>& files, const model::TransformersConfig& config,
                             at::TensorOptions options, int64_t seed);

  // Returns a parameter. Throws UsageError if there are files and they lack it or have another shape.
  at::Tensor make(const std::string& name, at::IntArrayRef shape, SyntheticWeightInitialization filling);
  // The same, but synthetic if there are files and they lack it.
  at::Tensor make_or_add(const std::string& name, at::IntArrayRef shape);
  // The same in float32, whatever the model's dtype.
  at::Tensor make_in_float(const std::string& name, at::IntArrayRef shape, SyntheticWeightInitialization filling);

  // Returns a tensor that is not trained, of a dtype of its own; without files it holds `value`.
  at::Tensor make_buffer(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype, double value = 0);

  // The same for the matrices of all experts, [experts, out, in]. If the files store each expert on its own, as
  // "<path>.<expert>.<part>.weight", they are stacked. `parts` are concatenated along `out`.
  at::Tensor make_stacked(const std::string& name, at::IntArrayRef shape, const std::vector<std::string_view>& parts);

  // Call after making all weights. Reports synthetic weights, or tensors of the files that were not used; "": neither.
  std::string note() const;

 private:
  struct Place {
    const safetensors::Reader* file = nullptr;
    const safetensors::TensorEntry* entry = nullptr;
  };

  const Place* find(const std::string& name);
  const Place& place_of(const std::string& name);
  at::Tensor read(const std::string& name, at::IntArrayRef shape, at::TensorOptions options);
  at::Tensor synthetic(at::IntArrayRef shape, SyntheticWeightInitialization filling);

  std::vector<std::unique_ptr<safetensors::Reader>> files_;
  std::map<std::string, Place> places_;                       // by name in the files
  std::vector<std::pair<std::string, std::string>> renamed_;  // part of a name, and its replacement in files
  std::set<std::string> asked_for_;
  at::TensorOptions options_;
  double deviation_;
  int64_t seed_;
  at::Tensor noise_;  // repeated to fill each weight: drawing every element would take seconds
};

}  // namespace memtune::frontend
