// Emits alternating updates (AltUp) and the learned augmented residual layer (LAuReL) of Gemma 3n. The residual stream
// is a stack of streams, [streams, batch, length, width]. A layer computes the active one, and the others follow it.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// The stack before the first layer; the stream after the last one.
Value write_altup_streams(DecoderOpEmitter& parts, Value x);
Value write_altup_mean(DecoderOpEmitter& parts, Value streams);

// Before and after a layer's blocks; `layer`: path of the layer's module.
Value write_altup_prediction(DecoderOpEmitter& parts, Value streams, const std::string& layer);
Value write_altup_correction(DecoderOpEmitter& parts, Value predictions, Value activated, const std::string& layer);
Value active_stream(DecoderOpEmitter& parts, Value streams);

// Adds `input` of the layer (layer_inputs.h) to the streams that are not the first.
void add_layer_input(DecoderOpEmitter& parts, Value streams, Value input, const std::string& layer);

Value write_laurel(DecoderOpEmitter& parts, Value x, const std::string& layer);

}  // namespace memtune::frontend
