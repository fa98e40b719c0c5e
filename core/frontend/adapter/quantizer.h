// Linear layers' weights in few bits, all but the output head's, as transformers has it with bitsandbytes. The
// parameter keeps its name and holds the packed bytes, of a transposed layer those of the matrix turned round; the
// magnitudes stand beside it under the names of bitsandbytes: `<name>.absmax` and the like, or `<module>.SCB`.
#pragma once

#include <functional>
#include <string>

#include "core/program/program.h"

namespace memtune::frontend {

// `load_in`: a word of config::kQuantizations. One weight at a time, which is gone when the next is taken. UsageError
// when no layer has a weight that can be quantized.
void quantize(program::Program& program, const std::string& load_in);

// The same while the program is written, so that no two of its weights are ever whole at once: Program::as_written of a
// front end that makes weights one by one. The head, which is the last, is left, and quantize() leaves it too.
std::function<void(program::Program&, const program::Op&)> quantize_as_written(const std::string& load_in);

}  // namespace memtune::frontend
