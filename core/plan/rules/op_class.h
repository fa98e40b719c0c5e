// Classification of ops for the rules that write plans.
#pragma once

#include "core/plan/facts/program_facts.h"

namespace memtune::plan {

constexpr int kOutside = -1;  // block of an op that is in none

// False for prim ops, which only bind, pack and branch: other ops created what they return. makes_values() holds for
// views, which may copy (reshape, contiguous), and for in-place ops, which write new content. Both can be placed.
bool makes_values(const ProgramOpFacts& op);
bool makes_memory(const ProgramOpFacts& op);

// Whether recomputing the op costs almost nothing and gives the same result. Its class is cheap, and it draws no random
// numbers.
bool is_cheap(const ProgramOpFacts& op);
bool is_matmul(const ProgramOpFacts& op);  // includes convolutions
bool is_attention(const ProgramOpFacts& op);
bool is_norm(const ProgramOpFacts& op);

}  // namespace memtune::plan
