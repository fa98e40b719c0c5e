// States whose contents encode step and life, for the tests of core/engine/state.
#pragma once

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "core/engine/state/atomic_saved_state_writer.h"
#include "core/engine/state/load.h"
#include "core/engine/state/saved_states_folder.h"
#include "tests/support/state_image.h"

namespace memtune::test {

inline std::vector<safetensors::TensorNameDtypeAndShape> specs_of(int64_t step) {
  using safetensors::Dtype;
  return {{"layers.0.weight", Dtype::bf16, {7, 3}},
          {"empty", Dtype::f32, {0, 4}},
          {"\xC3\xBC", Dtype::u8, {5}},
          {"loss", Dtype::f64, {step % 100}},
          {"embedding", Dtype::f32, {43, 25}},  // takes two transfers
          {"scale", Dtype::f32, {}}};
}

// Each step and each `life` of the run has different contents.
inline Contents contents_of(int64_t step, int life = 0) {
  Contents contents;
  std::mt19937_64 random(static_cast<uint64_t>(step * 16 + life));
  for (const safetensors::TensorNameDtypeAndShape& spec : specs_of(step)) {
    std::string& bytes = contents[spec.name];
    bytes.resize(static_cast<size_t>(safetensors::bytes_of(spec.name, spec.dtype, spec.shape)));
    for (char& byte : bytes) byte = static_cast<char>(random());
  }
  return contents;
}

inline void save(state::SavedStatesFolder& folder, int64_t step, int life = 0) {
  const std::vector<safetensors::TensorNameDtypeAndShape> specs = specs_of(step);
  const Contents contents = contents_of(step, life);
  StateImage image(specs, contents);  // outlives the writer
  folder.make();
  state::AtomicSavedStateWriter writer(folder, step, specs);
  image.write(writer, disk::kAlignment);
  writer.publish();
}

// Saves the same state on two ranks. Rank 0 has the tensors, and both ranks have a part of one row. The part of rank 1
// is written before rank 0 publishes.
inline constexpr int64_t kRowBytes = 9000;
inline void save_on_two_ranks(state::SavedStatesFolder& folder, int64_t step, int life = 0) {
  folder.make();
  for (const int rank : {1, 0}) {
    folder.set_rank({rank, 2});
    std::vector<safetensors::TensorNameDtypeAndShape> specs =
        rank == 0 ? specs_of(step) : std::vector<safetensors::TensorNameDtypeAndShape>();
    Contents contents = rank == 0 ? contents_of(step, life) : Contents();
    const int64_t bytes = rank == 0 ? kRowBytes / 3 : kRowBytes - kRowBytes / 3;
    specs.push_back({"row", safetensors::Dtype::u8, {bytes}});
    contents["row"] = std::string(static_cast<size_t>(bytes), static_cast<char>(step * 16 + life));
    StateImage image(specs, contents);
    state::AtomicSavedStateWriter writer(folder, step, specs,
                                         {{"row", {{kRowBytes}, {}, rank == 0 ? 0 : kRowBytes / 3}}});
    image.write(writer, disk::kAlignment);
    writer.publish();
  }
}

struct Loaded {
  int64_t step = 0;
  Contents contents;
};

inline Loaded load(const state::SavedStatesFolder& folder, std::optional<int64_t> step = std::nullopt) {
  Loaded loaded;
  const auto take = [&](const state::ManifestTensorEntry& tensor, std::span<const char> bytes) {
    loaded.contents[tensor.name].append(bytes.begin(), bytes.end());  // parts in rank order
  };
  loaded.step = state::load(folder, step, {{}, take});
  return loaded;
}

// The error of load(), "" if it succeeds.
inline std::string refusal(const state::SavedStatesFolder& folder, std::optional<int64_t> step = std::nullopt) {
  try {
    load(folder, step);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace memtune::test
