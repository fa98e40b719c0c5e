// memtune-copy-state RUN STEP FILE...: saves the tensors of safetensors files as a state and reads it back. Saves the
// result as the states of the next two steps, the second one on three ranks. Other readers are tested with it.
#include <cstdio>
#include <string>

#include "core/engine/state/atomic_saved_state_writer.h"
#include "core/engine/state/load.h"
#include "core/model/safetensors/reader.h"
#include "tests/support/state_image.h"

using namespace memtune;

namespace {

std::vector<safetensors::TensorNameDtypeAndShape> specs;
test::Contents contents;

void add(const std::string& name, safetensors::Dtype dtype, const std::vector<int64_t>& shape, std::string bytes) {
  specs.push_back({name, dtype, shape});
  contents[name] = std::move(bytes);
}

void save(state::SavedStatesFolder& folder, int64_t step) {
  test::StateImage image(specs, contents);  // outlives the writer
  state::AtomicSavedStateWriter writer(folder, step, specs);
  image.write(writer, disk::kAlignment);
  writer.publish();
}

// Gives each rank a third of every tensor, as whole elements. A rank without elements of a tensor omits it.
void save_on_ranks(state::SavedStatesFolder& folder, int64_t step, int ranks) {
  for (int rank = ranks - 1; rank >= 0; --rank) {
    folder.set_rank({rank, ranks});
    std::vector<safetensors::TensorNameDtypeAndShape> own;
    test::Contents bytes;
    state::ShardExtents parts;
    for (const safetensors::TensorNameDtypeAndShape& spec : specs) {
      const int64_t size = safetensors::bytes_of(spec.dtype);
      const int64_t count = static_cast<int64_t>(contents.at(spec.name).size()) / size;
      const int64_t begin = count * rank / ranks, end = count * (rank + 1) / ranks;
      if (begin == end) continue;
      own.push_back({spec.name, spec.dtype, {end - begin}});
      parts[spec.name] = {spec.shape, {}, begin};
      bytes[spec.name] =
          contents.at(spec.name).substr(static_cast<size_t>(begin * size), static_cast<size_t>((end - begin) * size));
    }
    test::StateImage image(own, bytes);
    state::AtomicSavedStateWriter writer(folder, step, own, parts);
    image.write(writer, disk::kAlignment);
    writer.publish();
  }
}

}  // namespace

int main(int argc, char** argv) try {
  state::SavedStatesFolder folder(argv[1]);
  folder.make();
  for (int i = 3; i < argc; ++i) {
    const safetensors::Reader reader(argv[i]);
    for (const safetensors::TensorEntry& entry : reader.entries()) {
      std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
      reader.read(entry, bytes.data());
      add(entry.name, entry.dtype, entry.shape, std::move(bytes));
    }
  }
  const int64_t step = std::stoll(argv[2]);
  save(folder, step);
  specs.clear();
  contents.clear();
  state::load(folder, step, {{}, [](const state::ManifestTensorEntry& tensor, std::span<const char> bytes) {
                               add(tensor.name, tensor.dtype, tensor.shape, {bytes.begin(), bytes.end()});
                             }});
  save(folder, step + 1);
  save_on_ranks(folder, step + 2, 3);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
