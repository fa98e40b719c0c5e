// States with contents that tell which they are, for the tests of core/state.
#pragma once

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "core/state/load.h"
#include "core/state/state_folder.h"
#include "core/state/state_writer.h"
#include "tests/support/state_image.h"

namespace memtune::test {

inline std::vector<safetensors::Spec> specs_of(int64_t step) {
  using safetensors::Dtype;
  return {{"layers.0.weight", Dtype::bf16, {7, 3}},
          {"empty", Dtype::f32, {0, 4}},
          {"\xC3\xBC", Dtype::u8, {5}},
          {"loss", Dtype::f64, {step % 100}},
          {"embedding", Dtype::f32, {43, 25}},  // of two transfers
          {"scale", Dtype::f32, {}}};
}

// Those of another life of the run are others.
inline Contents contents_of(int64_t step, int life = 0) {
  Contents contents;
  std::mt19937_64 random(static_cast<uint64_t>(step * 16 + life));
  for (const safetensors::Spec& spec : specs_of(step)) {
    std::string& bytes = contents[spec.name];
    bytes.resize(static_cast<size_t>(safetensors::bytes_of(spec.name, spec.dtype, spec.shape)));
    for (char& byte : bytes) byte = static_cast<char>(random());
  }
  return contents;
}

inline void save(state::StateFolder& folder, int64_t step, int life = 0) {
  const std::vector<safetensors::Spec> specs = specs_of(step);
  const Contents contents = contents_of(step, life);
  StateImage image(specs, contents);  // outlives the writer
  folder.make();
  state::StateWriter writer(folder, step, specs);
  image.write(writer, disk::kAlignment);
  writer.publish();
}

struct Loaded {
  int64_t step = 0;
  Contents contents;
};

inline Loaded load(const state::StateFolder& folder, std::optional<int64_t> step = std::nullopt) {
  Loaded loaded;
  const auto take = [&](const state::StateTensor& tensor, std::span<const char> bytes) {
    loaded.contents[tensor.name] = {bytes.begin(), bytes.end()};
  };
  loaded.step = state::load(folder, step, {{}, take});
  return loaded;
}

// What load() says; "" when it loads.
inline std::string refusal(const state::StateFolder& folder, std::optional<int64_t> step = std::nullopt) {
  try {
    load(folder, step);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace memtune::test
