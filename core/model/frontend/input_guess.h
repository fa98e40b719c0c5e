// Guesses an input from the embedding, convolution or linear layer of the model that reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/model/program/program.h"
#include "core/plan/request/trial_request.h"

namespace memtune::frontend {

// Rows of the embedding that reads the input; nullopt if none does.
std::optional<int64_t> embedding_rows(const program::Program& program, program::Slot input);

// A small batch for the input: tokens for an embedding, images for a two-dimensional convolution, features for a linear
// layer. Returns nullopt if none of these reads the input.
std::optional<plan::InputSpec> guess_input(const program::Program& program, program::Slot input,
                                           const std::string& name);

}  // namespace memtune::frontend
