// The factors of adapters: out of an adapter_model.safetensors, or drawn as peft draws them.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>

#include "core/config/lora.h"

namespace memtune::frontend {

// As peft names what it wraps.
inline constexpr char kLoraPrefix[] = "base_model.model.";

// The two of a kind of layer, as peft's files end their names.
struct FactorNames {
  const char* down;
  const char* up;
};
inline constexpr FactorNames kLinearFactors = {".lora_A.weight", ".lora_B.weight"};
inline constexpr FactorNames kEmbeddingFactors = {".lora_embedding_A", ".lora_embedding_B"};

class LoraFactors {
 public:
  // `lora` must outlive this. Of a model on the meta device shapes alone are read and made. IoError, UsageError for a
  // file that cannot be read.
  LoraFactors(const config::Lora& lora, int64_t seed, bool shapes_only);

  // A parameter: that of the layer at `path` whose name ends with `which`. UsageError when the file lacks it, or has
  // one of another shape.
  at::Tensor make(const std::string& path, const char* which, at::IntArrayRef shape, at::TensorOptions options);

  // Into a parameter of the model what the file has for it: peft saves biases that are trained, and an embedding and a
  // head that are adapted. UsageError for one of another shape.
  void take_saved(const std::string& name, const at::Tensor& parameter);

  // UsageError when the file has a tensor that nothing asked for.
  void check_all_used() const;

 private:
  at::Tensor drawn(const char* which, at::IntArrayRef shape);
  const at::Tensor* find(std::string path, const std::string& which);
  void check_shape(const std::string& name, const at::Tensor& found, at::IntArrayRef shape) const;
  std::string file() const { return lora_.weights.filename().string(); }

  const config::Lora& lora_;
  at::Generator generator_;
  std::map<std::string, at::Tensor> given_;
  std::set<std::string> used_;
};

}  // namespace memtune::frontend
