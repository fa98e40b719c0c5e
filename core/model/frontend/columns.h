// Datasets of pairs have two columns, anchors and positives. sentence-transformers runs the model once for each column,
// whose batch has its own length, and keeps the activations of both.
#pragma once

#include <string>
#include <vector>

#include "core/model/program/program.h"

namespace memtune::frontend {

// "anchor" of an input "anchor_input_ids"; "": it is of no column.
std::string column_of(const std::string& input);
std::string without_column(const std::string& input);  // "input_ids"

// Returns a program that runs the model for both columns with the same parameters. Its inputs are those of the model,
// once for each column; its output is a tuple of the model's outputs.
program::Program in_columns(program::Program model);

}  // namespace memtune::frontend
