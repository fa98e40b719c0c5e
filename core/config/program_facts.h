// What is known of a model without running it: its ops in program order, their values, its blocks. Made by
// core/program, read by strategies and reports; plain data so that those need no LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/config/op_traits.h"

namespace memtune::config {

// One op. Values are numbered over the whole program; a value is a tensor (or a list or tuple of tensors).
struct OpFacts {
  std::string name;           // "aten::linear"; control flow is "prim::If", "prim::Loop"
  std::string region;         // module path: "layers.0.attn.wq"; "" at the top; "loss" for the loss
  int block = -1;             // index into ProgramFacts::blocks; -1: in none
  bool after_blocks = false;  // behind the last block: final norm, output head, loss
  std::vector<int> inputs;    // value numbers of tensor inputs, parameters excluded
  std::vector<int> outputs;   // value numbers of tensor outputs
  bool view = false;          // outputs share memory with an input
  bool in_place = false;      // writes into an input
  bool random = false;        // draws from the generator
  OpClass op_class = OpClass::unknown;
  std::string source;  // "model.py:42" as the model's author knows it, or ""

  // Measured by one forward; empty and 0 when the op did not run or nothing was measured. The lists have one entry an
  // output.
  std::vector<int64_t> output_bytes;  // of the storage that an output brought into being; 0: a view of something older
  std::vector<bool> output_saved;     // autograd saved it, whole or as a view, for somebody's backward
  int64_t private_bytes = 0;          // what the op saved that is neither its input nor its output
  double flops = 0;                   // two for a multiply-add, of matmuls, convolutions and attention; of others 0
  std::string dtype;                  // in which it multiplies; "" where flops are 0
};

std::string full_name(const OpFacts& op);  // "layers.0.attn/aten::linear"
int64_t saved_bytes(const OpFacts& op);    // of what the op made autograd saves so much; 0 where it was not measured

struct BlockFacts {
  std::string region;  // "layers.3"
};

struct ProgramFacts {
  std::string kind;  // "scripted" | "traced" | "exported" | "profile" | "config"
  std::vector<OpFacts> ops;
  std::vector<BlockFacts> blocks;
  int64_t parameters = 0;  // elements, tied ones once
  int64_t parameter_bytes = 0;
  int64_t trained_bytes = 0;       // of those that require grad
  int64_t trained_embeddings = 0;  // elements of those that embeddings read
  std::vector<std::string> notes;  // what the person should know ("dropout is fixed by the trace", ...)

  // Value number -> number of the op that makes it, through views and in-place ops: the op that owns the memory.
  // -1 for program inputs. Values that only may share memory (in a list, out of a branch) have one number, the first.
  std::vector<int> owner;
};

void to_json(nlohmann::json& json, const ProgramFacts& facts);
void from_json(const nlohmann::json& json, ProgramFacts& facts);

}  // namespace memtune::config
