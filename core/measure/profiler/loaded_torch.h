// The LibTorch that the process has loaded, which may differ from the one that the program was compiled for.
#pragma once

#include <string>

namespace memtune::profiler {

// "2.14.1"; without what names a build, such as "+cu130".
std::string loaded_torch();

// C++ types and functions differ between minor releases, so call it before anything else of LibTorch. Throws UsageError
// if the process has loaded another one. If symbols are missing, the loader ends the process before main().
void check_loaded_torch();

}  // namespace memtune::profiler
