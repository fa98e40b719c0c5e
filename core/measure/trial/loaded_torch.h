// Refuses a LibTorch of another minor release than the program was compiled for.
#pragma once

namespace memtune::trial {

// C++ types and functions differ between minor releases, so call it before anything else of LibTorch. Throws UsageError
// if the process has loaded another one. If symbols are missing, the loader ends the process before main().
void check_loaded_torch();

}  // namespace memtune::trial
