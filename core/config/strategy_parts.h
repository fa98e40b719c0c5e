// How a strategy that a person writes is cut into its parts: "checkpoint:op,save=matmul+add+offload:stream".
#pragma once

#include <string>
#include <vector>

namespace memtune::config {

// A '+' begins a part only before "none" and the name of a family: others are within a list of ops. Not trimmed; there
// is at least one.
std::vector<std::string> split_parts(const std::string& strategy);

}  // namespace memtune::config
