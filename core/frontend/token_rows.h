// What stands beside rows of tokens, as transformers' collators make it: positions and ends of packed documents, masks
// and labels of padded rows. On the CPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::frontend {

// position_ids [1, length] of a row of so many documents, equally long: anew with each.
at::Tensor document_positions(int64_t length, int64_t documents);

// cu_seq_lens_q of such positions, int32 [documents + 1]: where each document begins, and the end of the last.
at::Tensor document_ends(const at::Tensor& positions);

// attention_mask, int64 [rows, length]: 0 at the end of each row, further from it in each than in the one before, of
// `part` (0 to 0.5) of all tokens, rounded up row by row.
at::Tensor padding_mask(int64_t rows, int64_t length, double part);

// The tokens, and -100, which losses ignore, where the mask is 0.
at::Tensor labels_of(const at::Tensor& tokens, const at::Tensor& mask);

}  // namespace memtune::frontend
