// What the model itself tells about an input: the embedding, convolution or linear layer that the input goes into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/config/trial_request.h"
#include "core/program/program.h"

namespace memtune::frontend {

// Rows of the embedding that the input goes into; nothing when it goes into none.
std::optional<int64_t> embedding_rows(const program::Program& program, program::Slot input);

// A small batch for the input: tokens for an embedding, images for a two-dimensional convolution, features for a linear
// layer; nothing when none of them is right behind the input.
std::optional<config::InputSpec> guess_input(const program::Program& program, program::Slot input,
                                             const std::string& name);

}  // namespace memtune::frontend
