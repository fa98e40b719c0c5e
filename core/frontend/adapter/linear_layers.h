// The linear layers of a program: its linears whose weight is a parameter, by the path of the module that has it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/program/program.h"

namespace memtune::frontend {

struct LinearLayer {
  std::string path;   // "model.layers.0.mlp.up_proj"
  at::Tensor weight;  // as it is held
  int64_t rows = 0, columns = 0;
  bool quantized = false;
  c10::intrusive_ptr<c10::ivalue::Object> object;  // that holds it, as `attribute`; null: it is a constant
  std::string attribute;
  bool is_head = false;  // the last that runs
};

class LinearLayers {
 public:
  // `program` must outlive this; its weights are looked up as they were then.
  explicit LinearLayers(const program::Program& program);

  std::optional<LinearLayer> find(const program::Op& op) const;

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
  void note_others(const program::Op& op, bool is_layer);
  c10::IValue value_of(program::Slot slot) const;
  std::string path_of(const at::Tensor& weight, const program::ModuleRegion& region) const;

  const program::Program& program_;
  std::unordered_map<const void*, std::vector<std::string>> modules_;  // by tensor: those that have it as their weight
  std::unordered_map<program::Slot, Held> held_;                       // what is read from objects
  std::unordered_set<const void*> others_;                             // tensors
  std::vector<std::string> paths_;
};

}  // namespace memtune::frontend
