// Finds the layers that adapters support: linear layers and embeddings whose weight is a parameter, by module path.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/model/program/program.h"

namespace memtune::frontend {

// transposed: transformers' Conv1D, whose weight is [columns, rows].
enum class LinearWeightLayoutOrQuantization { plain, transposed, in_4_bits, in_8_bits };

struct LinearLayer {
  std::string path;   // "model.layers.0.mlp.up_proj"
  at::Tensor weight;  // as stored, packed if quantized
  int64_t rows = 0, columns = 0;
  LinearWeightLayoutOrQuantization form = LinearWeightLayoutOrQuantization::plain;
  c10::intrusive_ptr<c10::ivalue::Object> object;  // holds the weight as `attribute`; null: it is a constant
  std::string attribute;
  bool is_head = false;  // the last linear layer that runs, if the program has a head

  bool quantized() const {
    return form == LinearWeightLayoutOrQuantization::in_4_bits || form == LinearWeightLayoutOrQuantization::in_8_bits;
  }
  // Index of the layer's input among the op's arguments.
  size_t input() const { return form == LinearWeightLayoutOrQuantization::transposed ? 1 : 0; }
};

struct EmbeddingLayer {
  std::string path;
  at::Tensor weight;  // [rows, width]
};

class LinearAndEmbeddingLayerFinder {
 public:
  // `program` must outlive this. Weights are matched to modules as they are now.
  explicit LinearAndEmbeddingLayerFinder(const program::Program& program);

  std::optional<LinearLayer> find(const program::Op& op) const;
  std::optional<EmbeddingLayer> find_embedding(const program::Op& op) const;

  // True if anything but a linear layer found here reads the weight.
  bool is_read_elsewhere(const at::Tensor& weight) const { return others_.contains(weight.unsafeGetTensorImpl()); }

  // Names of modules in the order in which they run: "q_proj" for all paths that end with it.
  std::vector<std::string> names() const;

 private:
  struct Held {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    std::string attribute;
  };

  void look(const program::ProgramOrControlFlowBody& body);
  void note_others(const program::Op& op, size_t weight);  // `weight`: index of the layer's own weight
  void set_size(const program::Op& op, LinearLayer& layer) const;
  c10::IValue value_of(program::Slot slot) const;
  std::string path_of(const at::Tensor& weight, const program::ModuleCallTreeNode& region,
                      std::initializer_list<std::string_view> types) const;

  const program::Program& program_;
  std::unordered_map<const void*, std::vector<std::string>> modules_;  // modules with this weight, by tensor
  std::unordered_map<program::Slot, Held> held_;                       // attributes that the program reads
  std::unordered_set<const void*> others_;                             // tensors that other ops read
  std::vector<std::string> paths_;
};

}  // namespace memtune::frontend
