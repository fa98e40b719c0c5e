// The layers of a program that adapters know: its linears and embeddings whose weight is a parameter, by the path of
// the module that has it.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/program/program.h"

namespace memtune::frontend {

// Transposed: the Conv1D of transformers, whose weight is [columns, rows].
enum class LinearForm { plain, transposed, in_4_bits, in_8_bits };

struct LinearLayer {
  std::string path;   // "model.layers.0.mlp.up_proj"
  at::Tensor weight;  // as it is held
  int64_t rows = 0, columns = 0;
  LinearForm form = LinearForm::plain;
  c10::intrusive_ptr<c10::ivalue::Object> object;  // that holds it, as `attribute`; null: it is a constant
  std::string attribute;
  bool is_head = false;  // the last that runs

  bool quantized() const { return form == LinearForm::in_4_bits || form == LinearForm::in_8_bits; }
  // Of the op's arguments.
  size_t input() const { return form == LinearForm::transposed ? 1 : 0; }
};

struct EmbeddingLayer {
  std::string path;
  at::Tensor weight;  // [rows, width]
};

class LinearLayers {
 public:
  // `program` must outlive this; its weights are looked up as they were then.
  explicit LinearLayers(const program::Program& program);

  std::optional<LinearLayer> find(const program::Op& op) const;
  std::optional<EmbeddingLayer> find_embedding(const program::Op& op) const;

  // By an op that is no linear layer, or by one of another module.
  bool is_read_elsewhere(const at::Tensor& weight) const { return others_.contains(weight.unsafeGetTensorImpl()); }

  // Of modules: "q_proj" for all that end so, in the order in which they run.
  std::vector<std::string> names() const;

 private:
  struct Held {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    std::string attribute;
  };

  void look(const program::Body& body);
  void note_others(const program::Op& op, size_t weight);  // the argument that is a layer's own
  void set_size(const program::Op& op, LinearLayer& layer) const;
  c10::IValue value_of(program::Slot slot) const;
  std::string path_of(const at::Tensor& weight, const program::ModuleRegion& region,
                      std::initializer_list<std::string_view> types) const;

  const program::Program& program_;
  std::unordered_map<const void*, std::vector<std::string>> modules_;  // by tensor: those that have it as their weight
  std::unordered_map<program::Slot, Held> held_;                       // what is read from objects
  std::unordered_set<const void*> others_;                             // tensors
  std::vector<std::string> paths_;
};

}  // namespace memtune::frontend
