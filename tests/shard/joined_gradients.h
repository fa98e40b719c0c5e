// Assembles the whole gradients of sharded parameters, on every rank.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "core/engine/shard/collectives.h"
#include "core/model/program/state.h"

namespace memtune::tests {

// Gathers one row per rank. All rows have the same length.
inline at::Tensor rows_of_all(shard::Collectives& group, const at::Tensor& row) {
  const at::Tensor all = at::empty({group.size() * row.numel()}, row.options());
  group.all_gather(all, row.contiguous(), "a test")->wait();
  return all.view({group.size(), row.numel()});
}

// Gradients of the trained `parameters`: flat, float32. A rank may have no piece of a parameter.
inline program::NamedTensors joined_gradients(shard::Collectives& group, const program::NamedTensors& parameters,
                                              const program::NamedTensors& pieces) {
  program::NamedTensors joined;
  std::vector<int64_t> lengths;
  std::vector<at::Tensor> own;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) continue;
    joined.emplace_back(name, at::Tensor());
    own.push_back(at::zeros({parameter.numel()}));
    lengths.push_back(0);
    for (const auto& [of, piece] : pieces)
      if (of == name) own.back().narrow(0, 0, lengths.back() = piece.numel()).copy_(piece.grad());
  }
  const at::Tensor rows = rows_of_all(group, at::cat(own));
  const at::Tensor all_lengths = rows_of_all(group, at::tensor(lengths, at::kLong));
  int64_t begin = 0;
  for (size_t i = 0; i < joined.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (int64_t rank = 0; rank < rows.size(0); ++rank)
      parts.push_back(rows[rank].narrow(0, begin, all_lengths[rank][static_cast<int64_t>(i)].item<int64_t>()));
    joined[i].second = at::cat(parts);
    begin += own[i].numel();
  }
  return joined;
}

}  // namespace memtune::tests
