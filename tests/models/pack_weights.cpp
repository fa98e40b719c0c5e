// memtune-pack-weights 4bit|4bit-single FROM TO: every matrix of a safetensors file packed and, as `<name>.unpacked`,
// unpacked again, for the comparison with bitsandbytes.
#include <ATen/ATen.h>

#include <cstdio>
#include <string>

#include "core/base/file.h"
#include "core/frontend/safetensors.h"
#include "core/quantized/nf4.h"
#include "core/safetensors/layout.h"

using namespace memtune;

int main(int /*argc*/, char** argv) try {
  const auto magnitudes =
      std::string(argv[1]) == "4bit" ? quantized::Magnitudes::quantized : quantized::Magnitudes::plain;
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, weight] : frontend::read_safetensors(argv[2])) {
    const quantized::Nf4 packed = quantized::pack_nf4(weight, magnitudes);
    tensors[name] = packed.bytes;
    tensors[name + ".absmax"] = packed.largest;
    if (packed.mean.defined()) tensors[name + ".nested_absmax"] = packed.largest_of_largest;
    if (packed.mean.defined()) tensors[name + ".nested_offset"] = packed.mean;
    tensors[name + ".unpacked"] = quantized::unpack_nf4(packed, weight.sizes(), weight.scalar_type());
  }
  std::vector<safetensors::Spec> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({name, *frontend::dtype_of(tensor.scalar_type()), tensor.sizes().vec()});
  const safetensors::Header header{safetensors::lay_out(specs), {}};
  std::string file = safetensors::print_header(header);
  for (const safetensors::Entry& entry : header.entries)
    file.append(static_cast<const char*>(tensors.at(entry.name).const_data_ptr()), static_cast<size_t>(entry.bytes()));
  write_file(argv[3], file);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
