// What kinds of ops there are, for the rules that write plans.
#pragma once

#include <string>

#include "core/config/program_facts.h"

namespace memtune::plan {

constexpr int kOutside = -1;  // the "block" of an op that is in none

// prim ops only bind, pack and branch: what they hand on was made by others. A "view" may copy (reshape, contiguous),
// and an in-place op makes the memory's next value: both have a place of their own.
bool makes_values(const config::OpFacts& op);
bool makes_memory(const config::OpFacts& op);

// Running it again costs next to nothing and makes the same: its class is cheap, and it draws no random numbers.
bool is_cheap(const config::OpFacts& op);
bool is_matmul(const config::OpFacts& op);  // convolutions too
bool is_attention(const config::OpFacts& op);
bool is_norm(const config::OpFacts& op);

// "softmax" and "aten::softmax" are one op.
std::string bare(const std::string& name);

}  // namespace memtune::plan
