// Inputs that accompany rows of tokens, as transformers' collators make them: positions and ends of packed documents,
// masks and labels of padded rows. On the CPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::frontend {

// position_ids [1, length] of a row of `documents` documents of equal length. They restart with each document.
at::Tensor document_positions(int64_t length, int64_t documents);

// cu_seq_lens_q for these positions, int32 [documents + 1]: start of each document and end of the last.
at::Tensor document_ends(const at::Tensor& positions);

// attention_mask, int64 [rows, length], with 0 at the end of each row. Each row has more padding than the one before.
// In total, `part` (0 to 0.5) of all tokens is padding, rounded up in each row.
at::Tensor padding_mask(int64_t rows, int64_t length, double part);

// The tokens, with -100, which losses ignore, where the mask is 0.
at::Tensor labels_of(const at::Tensor& tokens, const at::Tensor& mask);

}  // namespace memtune::frontend
