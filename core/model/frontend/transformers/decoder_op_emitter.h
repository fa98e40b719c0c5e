// Building blocks of a decoder: layers with weights, and the arithmetic between them. One object per decoder. Every
// part emits its ops through it, in the order of transformers' modeling code.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/frontend/front_end.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/frontend/transformers/weights.h"
#include "core/model/transformers/sentence_pooling_config.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::frontend {

// Settings of a decoder that are not in its config.
struct DecoderLoweringOptions {
  AttentionImplementation attention = AttentionImplementation::sdpa;
  bool packed = false;
  bool padded = false;
  int64_t sequence = 0;  // longest sequence of the run; 0: not known
  std::optional<at::ScalarType> autocast;
  ModelOutputHeadKind head = ModelOutputHeadKind::of_config;
  model::SentencePoolingConfig after = {};  // ModelOutputHeadKind::embedding

  // True if masks are emitted for every sequence length.
  bool masked() const { return packed || padded || attention == AttentionImplementation::eager; }
};

class DecoderOpEmitter {
 public:
  // `program`, `config` and `weights` must outlive this.
  DecoderOpEmitter(program::Program& program, const model::TransformersConfig& config,
                   TransformersWeightProvider& weights, at::TensorOptions options,
                   const DecoderLoweringOptions& setting);

  ProgramEmitter& emit() { return emit_; }
  const model::TransformersConfig& config() const { return layer_ ? *layer_ : config_; }
  // What config() returns from now on; null: the model's config again. The caller keeps it alive.
  void set_layer(const model::TransformersConfig* layer) { layer_ = layer; }
  const model::TransformersFamilyConventions& family() const { return config_.family; }
  const DecoderLoweringOptions& setting() const { return setting_; }
  at::ScalarType dtype() const { return dtype_; }
  c10::Device device() const { return device_; }
  std::string type(std::string_view name) const { return std::string(family().class_prefix) + std::string(name); }

  // Sizes of the batch. Set them before emitting anything that has a shape.
  void set_size(Value batch, Value length) {
    batch_ = batch;
    length_ = length;
  }
  Value batch() const { return batch_; }
  Value length() const { return length_; }
  // The list [batch, length, rest...].
  Value shape(const std::vector<int64_t>& rest);

  Value parameter(const std::string& path, at::IntArrayRef shape, SyntheticWeightInitialization filling);
  Value parameter_in_float(const std::string& path, at::IntArrayRef shape, SyntheticWeightInitialization filling);
  // [experts, out, in]; by its name, or stacked from the files' tensors of each expert.
  Value expert_weights(const std::string& path, std::string_view name, at::IntArrayRef shape);
  Value stored_buffer(const std::string& path, at::IntArrayRef shape);  // float32, whatever the model's dtype
  Value stored_factor(const std::string& path);                         // one number, of the model's dtype
  Value linear(Value x, const std::string& path, int64_t in, int64_t out, bool bias);
  Value norm(Value x, const std::string& path, int64_t width);
  Value rms_norm(Value x, const std::string& path, int64_t width, double epsilon);
  Value of_unit_mean_square(Value in_float, double epsilon);
  Value unweighted_norm(Value x, const std::string& path);
  Value layer_norm(Value x, const std::string& path, int64_t width, bool bias);
  Value layer_norm_in_float(Value x, const std::string& path, at::IntArrayRef shape);  // over the last of the sizes
  // `path`: of the activation's module, for those with parameters.
  Value activated(Value x, const std::string& path = "");
  void leave_autocast();                // until emit().leave()
  Value dropped(Value x, double part);  // returns x if `part` is 0

  Value cast(Value x, at::ScalarType type) { return emit_.op("aten::to", "dtype", {x, type}); }
  Value like(Value x, Value other) { return emit_.op("aten::type_as", "", {x, other}); }  // under autocast not dtype()
  // Of a size, while the program runs; `name` is that of the op.
  Value computed(const char* name, Value size, std::function<int64_t(int64_t)> function);
  Value plus(Value x, Value y) { return emit_.op("aten::add", "Tensor", {x, y}); }
  Value multiply(Value x, Value y) { return emit_.op("aten::mul", "Tensor", {x, y}); }
  Value times(Value x, double factor) { return emit_.op("aten::mul", "Scalar", {x, factor}); }
  Value reshaped(Value x, Value shape) { return emit_.op("aten::reshape", "", {x, shape}); }
  // Merges batch and length: [batch * length, width].
  Value rows(Value x, int64_t width) { return emit_.op("aten::view", "", {x, std::vector<int64_t>{-1, width}}); }

 private:
  Value transposed_linear(Value x, const std::string& path, int64_t in, int64_t out);
  Value layer_norm_plus_one(Value x, const std::string& path, int64_t width);
  Value layer_norm_unweighted(Value x, const std::string& path, int64_t width);
  Value gelu_new(Value x);
  Value bloom_gelu(Value x);
  Value xielu(Value x, const std::string& path);

  ProgramEmitter emit_;
  const model::TransformersConfig& config_;
  const model::TransformersConfig* layer_ = nullptr;
  TransformersWeightProvider& weights_;
  DecoderLoweringOptions setting_;
  at::ScalarType dtype_;
  c10::Device device_;
  Value batch_, length_;
  std::map<std::string, Value> parameters_;  // by path, because a module may be called twice
};

}  // namespace memtune::frontend
