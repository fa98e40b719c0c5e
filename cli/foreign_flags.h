// Flags of trainers and of other tools, and what does that in memtune.
#pragma once

#include <string>

namespace memtune::cli {

// For "--micro-batch-size" or "--per_device_train_batch_size": "--batch". "": none is known. With a value where the
// other flag has none: for "--gradient-checkpointing" "--strategy checkpoint:full".
std::string flag_for(const std::string& foreign);

}  // namespace memtune::cli
