// Quantizes the weights of linear layers, except the output head, as transformers does with bitsandbytes. The parameter
// keeps its name and holds the packed bytes; a transposed weight is transposed first. The scales become parameters with
// bitsandbytes' names: `<name>.absmax` and the like, or `<module>.SCB`.
#pragma once

#include <functional>
#include <string>

#include "core/model/program/program.h"

namespace memtune::frontend {

// `load_in`: a word of kQuantizations. Quantizes one weight at a time and frees it before the next. Throws
// UsageError if no layer has a weight that can be quantized.
void quantize(program::Program& program, const std::string& load_in);

// The same while the program is written, so that at most one weight is unquantized at a time. Set it as
// Program::as_written in a front end that makes weights one by one. It skips the head, which is the last layer; so does
// quantize().
std::function<void(program::Program&, const program::Op&)> quantize_as_written(const std::string& load_in);

}  // namespace memtune::frontend
