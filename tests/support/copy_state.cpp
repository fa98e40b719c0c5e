// memtune-copy-state RUN STEP FILE...: saves the tensors of safetensors files as a state, reads it, and saves what was
// read as the state of the next step; for the test with other readers.
#include <cstdio>
#include <string>

#include "core/safetensors/reader.h"
#include "core/state/load.h"
#include "core/state/state_writer.h"
#include "tests/support/state_image.h"

using namespace memtune;

namespace {

std::vector<safetensors::Spec> specs;
test::Contents contents;

void add(const std::string& name, safetensors::Dtype dtype, const std::vector<int64_t>& shape, std::string bytes) {
  specs.push_back({name, dtype, shape});
  contents[name] = std::move(bytes);
}

void save(state::StateFolder& folder, int64_t step) {
  test::StateImage image(specs, contents);  // outlives the writer
  state::StateWriter writer(folder, step, specs);
  image.write(writer, disk::kAlignment);
  writer.publish();
}

}  // namespace

int main(int argc, char** argv) try {
  state::StateFolder folder(argv[1]);
  folder.make();
  for (int i = 3; i < argc; ++i) {
    const safetensors::Reader reader(argv[i]);
    for (const safetensors::Entry& entry : reader.entries()) {
      std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
      reader.read(entry, bytes.data());
      add(entry.name, entry.dtype, entry.shape, std::move(bytes));
    }
  }
  const int64_t step = std::stoll(argv[2]);
  save(folder, step);
  specs.clear();
  contents.clear();
  state::load(folder, step, {{}, [](const state::StateTensor& tensor, std::span<const char> bytes) {
                               add(tensor.name, tensor.dtype, tensor.shape, {bytes.begin(), bytes.end()});
                             }});
  save(folder, step + 1);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
