// Client of the store that torchrun's agent runs for the processes that it started. Rank 0 publishes text there for the
// others.
#pragma once

#include <chrono>
#include <string>

namespace memtune::shard {

struct TorchrunStoreSettings {
  std::string host;
  int port = 0;
  std::string prefix;  // prefix of the keys
  int rank = 0;
  std::chrono::milliseconds timeout{120'000};
};

// Rank 0 publishes `text` and the others wait for it. Returns rank 0's text on every rank. The n-th call of a rank gets
// the n-th text, so several commands can run in one launch. Throws Error if the store or rank 0 does not respond in
// time.
std::string announce(const TorchrunStoreSettings& store, const std::string& text);

}  // namespace memtune::shard
