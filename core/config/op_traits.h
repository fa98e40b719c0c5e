// What is known of an op by its name: the one table of what an op is. Names are as in facts, "aten::linear"; an
// in-place form ("aten::relu_") is what its plain form is. Plain data, so that rules and reports need no LibTorch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace memtune::config {

enum class OpClass {
  unknown,         // nobody has said what it is: dear until it is known
  matmul,          // multiplies matrices, in any form
  convolution,     // and its transpose
  attention,       // scaled dot product attention in any form
  recurrent,       // LSTM, GRU
  linear_algebra,  // decompositions, solves, inverses, Fourier transforms
  embedding,       // rows of a table, by number
  order,           // sorts and picks by size: the order of equal elements is open
  scatter,         // writes or adds at numbered places, in no fixed order
  collective,      // between processes

  // From here on cheap: a pass over memory at most.
  norm,  // layer, batch, group, RMS
  elementwise,
  reduction,  // sums, softmax, losses, scans
  window,     // pooling, interpolation, patches
  copy,       // moves or makes elements: cat, gather, pad, zeros
  view,       // may copy, as reshape does
  host,       // numbers, sizes, lists: no tensor
};

std::string to_string(OpClass op_class);
OpClass parse_op_class(const std::string& name);  // unknown when it is no name of a class

struct OpTraits {
  OpClass op_class = OpClass::unknown;
  bool random = false;                // draws from the generator, or may
  std::vector<int> moves_statistics;  // arguments that it writes although its schema does not say so
  int data = 0;                       // the argument that its weight is applied to
  int weight = -1;                    // the argument that is a layer's weight; -1: it has none
  bool transposed = false;            // a convolution: the gradient of one, as a forward
};

const OpTraits& traits_of(std::string_view op);

// Matmuls and convolutions: most of a model's arithmetic, and never cheap.
bool is_matmul(OpClass op_class);

// Running it again costs next to nothing and makes the same; random draws are told apart by OpTraits::random.
bool is_cheap(OpClass op_class);

// "softmax" and "aten::softmax" are one op.
std::string_view bare(std::string_view op);

}  // namespace memtune::config
