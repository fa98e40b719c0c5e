// Versions of PyTorch as records have them: "2.15.0", "2.15.0+cu132".
#pragma once

#include <string>
#include <string_view>

namespace memtune {

// The minor release: "2.15" of "2.15.0+cu132". Empty if the text does not start with two numbers.
std::string torch_minor(std::string_view version);

// True if both minor releases are known and differ. Figures of two minors are not comparable as they are.
bool other_torch_minor(std::string_view a, std::string_view b);

// "PyTorch 2.15: untested on GPU", for releases that the CUDA engines were compiled for and never ran with. Empty for
// the tested release, and for text without a version.
std::string untested_on_gpu(std::string_view version);

}  // namespace memtune
