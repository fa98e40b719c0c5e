// The store that torchrun's agent runs for the processes that it started, which they are clients of: rank 0 leaves word
// there for the others.
#pragma once

#include <chrono>
#include <string>

namespace memtune::shard {

struct AgentStore {
  std::string host;
  int port = 0;
  std::string prefix;  // of the keys
  int rank = 0;
  std::chrono::milliseconds patience{120'000};
};

// Rank 0 leaves `text`, the others wait for it; either way it is answered. What a rank asks for the n-th time is what
// rank 0 leaves for the n-th time: commands may follow one another in one launch. Error when the store or rank 0 is not
// there in time.
std::string announce(const AgentStore& store, const std::string& text);

}  // namespace memtune::shard
