// Facts about a model that need no training run: ops in program order, their values, blocks. core/model/program creates
// them; strategies and reports read them. Plain data, so that readers need no LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/plan/facts/operator_class_and_argument_roles.h"

namespace memtune::plan {

// One op. A value is a tensor, or a list or tuple of tensors; values are numbered across the program.
struct ProgramOpFacts {
  std::string name;           // "aten::linear"; control flow is "prim::If", "prim::Loop"
  std::string region;         // module path, "layers.0.attn.wq"; "" at the top level; "loss" in the loss
  int block = -1;             // index into ProgramFacts::blocks; -1: outside of blocks
  bool after_blocks = false;  // after the last block: final norm, output head, loss
  std::vector<int> inputs;    // value numbers of input tensors, without parameters
  std::vector<int> outputs;   // value numbers of output tensors
  bool view = false;          // outputs share memory with an input
  bool in_place = false;      // writes into an input
  bool random = false;        // uses the random generator
  OpClass op_class = OpClass::unknown;
  std::string source;  // line in the author's code, "model.py:42"; "" if not known

  // Measured by one forward; empty or 0 if the op did not run or nothing was measured. Vectors have one entry per
  // output.
  std::vector<int64_t> output_bytes;  // of storage that the op created for this output; 0: a view of an older one
  std::vector<bool> output_saved;     // autograd saved the output or a view of it for some backward
  int64_t private_bytes = 0;          // saved tensors that are neither input nor output of the op
  double flops = 0;                   // of matmuls, convolutions and attention, two per multiply-add; 0 for others
  std::string dtype;                  // of the multiplication; "" if flops is 0
};

std::string full_name(const ProgramOpFacts& op);  // "layers.0.attn/aten::linear"
int64_t saved_bytes(const ProgramOpFacts& op);    // bytes that autograd saves of the op's results; 0 if not measured

struct BlockModulePath {
  std::string region;  // "layers.3"
};

struct ProgramFacts {
  std::string kind;  // "scripted" | "traced" | "exported" | "profile" | "config"
  std::vector<ProgramOpFacts> ops;
  std::vector<BlockModulePath> blocks;
  int64_t parameters = 0;  // elements; tied parameters count once
  int64_t parameter_bytes = 0;
  int64_t trained_bytes = 0;       // of parameters that require grad
  int64_t trained_embeddings = 0;  // elements of trained embedding tables
  std::vector<std::string> notes;  // for the user ("dropout is fixed by the trace", ...)

  // Index: value number. Element: the op that created the value's memory, followed through views and in-place ops; -1
  // for program inputs. Values that may share memory (in a list, out of a branch) have the number of the first.
  std::vector<int> owner;
};

void to_json(nlohmann::json& json, const ProgramFacts& facts);
void from_json(const nlohmann::json& json, ProgramFacts& facts);

}  // namespace memtune::plan
