// How a loss over a vocabulary is computed: "plain", "chunked=8" or "fused" (core/model/ops/linear_cross_entropy.h).
#pragma once

#include <cstdint>
#include <string>

namespace memtune {

struct LossImplementation {
  enum class Kind { plain, chunked, fused } kind = Kind::plain;
  int64_t chunks = 0;  // number of chunks of tokens, for Kind::chunked
};

LossImplementation parse_loss_implementation(const std::string& text);  // throws UsageError with the valid forms

}  // namespace memtune
