// Emits what sentence-transformers computes from the vectors of tokens.
#pragma once

#include <c10/core/Device.h>

#include "core/model/frontend/program_emitter.h"
#include "core/model/transformers/sentence_pooling_config.h"

namespace memtune::frontend {

// Tokens [rows, length, width] and their mask [rows, length], 0 for padding. `length`: the number. Returns [rows,
// width].
Value pooled(ProgramEmitter& emit, Value tokens, Value mask, Value length, int64_t width,
             model::SentencePoolingMethod pooling);

Value unit_length(ProgramEmitter& emit, Value rows);  // the rows divided by their lengths

// MultipleNegativesRankingLoss of sentence-transformers 6.2: scale 20, cosine similarity, one softmax for each anchor.
Value ranking_loss(ProgramEmitter& emit, Value anchors, Value positives, c10::Device device);

}  // namespace memtune::frontend
