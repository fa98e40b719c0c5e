// Properties of an op by its name, for all of memtune: class, randomness, weight argument. Names are qualified, as in
// "aten::linear". An in-place op ("aten::relu_") has the properties of its plain form. No LibTorch is needed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace memtune::plan {

enum class OpClass {
  unknown,         // not in the table; treated as expensive
  matmul,          // any form of matrix multiplication
  convolution,     // also transposed
  attention,       // scaled dot product attention in any form
  recurrent,       // LSTM, GRU
  linear_algebra,  // decompositions, solves, inverses, Fourier transforms
  embedding,       // rows of a table, by index
  order,           // sorting and top-k; the order of equal elements is undefined
  scatter,         // writes or adds at indexed positions, in no fixed order
  collective,      // between processes

  // From here on recomputation costs little: at most one pass over memory.
  norm,  // layer, batch, group, RMS
  elementwise,
  reduction,  // sums, softmax, losses, scans
  window,     // pooling, interpolation, patches
  copy,       // copies or creates elements: cat, gather, pad, zeros
  view,       // may copy, for example reshape
  host,       // numbers, sizes, lists; no tensors
};

std::string to_string(OpClass op_class);
OpClass parse_op_class(const std::string& name);  // unknown if `name` names no class

struct OperatorClassAndArgumentRoles {
  OpClass op_class = OpClass::unknown;
  bool random = false;                  // may draw from the random generator
  std::vector<int> updates_statistics;  // running statistics: arguments written without a mark in the schema
  int data = 0;                         // index of the argument that the weight is applied to
  int weight = -1;                      // index of the weight argument; -1: none
  bool transposed = false;              // a transposed convolution
  bool holds_layer = false;             // a loss with its output layer inside: the product is not in its output
  bool leaves_out_ignored = false;      // on CUDA, such a loss computes no logits of ignored labels
};

const OperatorClassAndArgumentRoles& traits_of(std::string_view op);

// Matmul or convolution: the classes with most of a model's arithmetic, expensive to recompute.
bool is_matmul(OpClass op_class);

// Recomputing costs at most one pass over memory and gives the same result. Randomness is separate:
// OperatorClassAndArgumentRoles::random.
bool is_cheap(OpClass op_class);

// Removes "aten::", so that "softmax" and "aten::softmax" name the same op.
std::string strip_op_namespace(std::string_view op);

}  // namespace memtune::plan
