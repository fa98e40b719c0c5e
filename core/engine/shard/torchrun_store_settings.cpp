#include "core/engine/shard/torchrun_store_settings.h"

#include <cstdint>
#include <exception>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "core/base/error.h"

namespace memtune::shard {

std::string announce(const TorchrunStoreSettings& store, const std::string& text) try {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(store.port);
  options.waitWorkers = false;
  options.timeout = store.timeout;
  c10d::TCPStore keys(store.host, options);
  const int64_t turn = keys.add(store.prefix + "rank" + std::to_string(store.rank), 1);
  const std::string key = store.prefix + "turn" + std::to_string(turn);
  if (store.rank == 0) {
    keys.set(key, std::vector<uint8_t>(text.begin(), text.end()));
    return text;
  }
  const std::vector<uint8_t> left = keys.get(key);
  return {left.begin(), left.end()};
} catch (const std::exception& error) {
  const std::string why = error.what();
  throw Error("the store at " + store.host + ":" + std::to_string(store.port) + ": " + why.substr(0, why.find('\n')));
}

}  // namespace memtune::shard
