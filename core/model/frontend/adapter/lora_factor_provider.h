// The factors of adapters: from an adapter_model.safetensors, or random as in peft.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>

#include "core/model/adapter/lora_config.h"

namespace memtune::frontend {

// peft's prefix for wrapped modules.
inline constexpr char kLoraPrefix[] = "base_model.model.";

// Name endings of a layer's two factors in peft's files.
struct PeftLoraFactorNameSuffixes {
  const char* down;
  const char* up;
};
inline constexpr PeftLoraFactorNameSuffixes kLinearFactors = {".lora_A.weight", ".lora_B.weight"};
inline constexpr PeftLoraFactorNameSuffixes kEmbeddingFactors = {".lora_embedding_A", ".lora_embedding_B"};

class LoraFactorProvider {
 public:
  // `lora` must outlive this. `shapes_only`: reads and makes only shapes, for a model on the meta device. Throws
  // IoError, or UsageError if the file cannot be read.
  LoraFactorProvider(const model::LoraConfig& lora, int64_t seed, bool shapes_only);

  // Returns a parameter: the factor with the ending `which` of the layer at `path`. Throws UsageError if the file lacks
  // it or has another shape.
  at::Tensor make(const std::string& path, const char* which, at::IntArrayRef shape, at::TensorOptions options);

  // Copies the file's tensor for a parameter of the model, if there is one. peft saves trained biases, and adapted
  // embeddings and heads. Throws UsageError for another shape.
  void load_saved(const std::string& name, const at::Tensor& parameter);

  // Throws UsageError if the file has a tensor that was not used.
  void check_all_used() const;

 private:
  at::Tensor drawn(const char* which, at::IntArrayRef shape);
  const at::Tensor* find(std::string path, const std::string& which);
  void check_shape(const std::string& name, const at::Tensor& found, at::IntArrayRef shape) const;
  std::string file() const { return lora_.weights.filename().string(); }

  const model::LoraConfig& lora_;
  at::Generator generator_;
  std::map<std::string, at::Tensor> given_;
  std::set<std::string> used_;
};

}  // namespace memtune::frontend
