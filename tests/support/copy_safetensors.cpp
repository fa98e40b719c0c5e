// memtune-copy-safetensors FROM TO: reads a file and writes one with the same content, to test other readers with it.
#include <cstdio>
#include <string>

#include "core/base/file.h"
#include "core/model/safetensors/layout.h"
#include "core/model/safetensors/reader.h"

using namespace memtune::safetensors;

int main(int /*argc*/, char** argv) try {
  const Reader reader(argv[1]);
  std::vector<TensorNameDtypeAndShape> specs;
  for (const TensorEntry& entry : reader.entries()) specs.push_back({entry.name, entry.dtype, entry.shape});
  const Header header{lay_out(specs), reader.metadata()};
  std::string file = print_header(header);
  for (const TensorEntry& written : header.entries) {
    for (const TensorEntry& entry : reader.entries()) {
      if (entry.name != written.name) continue;
      std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
      reader.read(entry, bytes.data());
      file += bytes;
    }
  }
  memtune::write_file(argv[2], file);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
