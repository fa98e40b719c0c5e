// memtune-pack-weights 4bit|4bit-single|8bit FROM TO: every matrix of a safetensors file packed and, as
// `<name>.unpacked`, unpacked again, for the comparison with bitsandbytes. 8bit: of "inputs", where the file has them,
// no weight is made; the product of each other matrix with them is `<name>.product`, and with `<name>.bias` where that
// is.
#include <ATen/ATen.h>

#include <cstdio>
#include <string>

#include "core/base/file.h"
#include "core/model/frontend/safetensors.h"
#include "core/model/quantized/int8.h"
#include "core/model/quantized/nf4.h"
#include "core/model/safetensors/layout.h"

using namespace memtune;

using Tensors = std::map<std::string, at::Tensor>;

static Tensors packed_4bit(const std::map<std::string, at::Tensor>& weights,
                           quantized::Nf4AbsmaxScaleEncoding magnitudes) {
  Tensors tensors;
  for (const auto& [name, weight] : weights) {
    const quantized::Nf4Weight packed = quantized::pack_nf4(weight, magnitudes);
    tensors[name] = packed.bytes;
    tensors[name + ".absmax"] = packed.largest;
    if (packed.mean.defined()) tensors[name + ".nested_absmax"] = packed.largest_of_largest;
    if (packed.mean.defined()) tensors[name + ".nested_offset"] = packed.mean;
    tensors[name + ".unpacked"] = quantized::unpack_nf4(packed, weight.sizes(), weight.scalar_type());
  }
  return tensors;
}

static Tensors packed_8bit(const Tensors& weights) {
  Tensors tensors;
  for (const auto& [name, weight] : weights) {
    if (name == "inputs" || weight.dim() != 2) continue;
    const quantized::Int8Weight packed = quantized::pack_int8(weight);
    tensors[name] = packed.numbers;
    tensors[name + ".SCB"] = packed.largest;
    tensors[name + ".unpacked"] = quantized::unpack_int8(packed, weight.scalar_type());
    const auto inputs = weights.find("inputs"), bias = weights.find(name + ".bias");
    if (inputs == weights.end()) continue;
    const auto added = bias == weights.end() ? std::nullopt : std::optional(bias->second);
    tensors[name + ".product"] =
        quantized::multiply_int8(inputs->second.to(weight.scalar_type()), packed, added).output;
  }
  return tensors;
}

int main(int /*argc*/, char** argv) try {
  const std::string load_in = argv[1];
  Tensors weights;
  for (const auto& [name, weight] : frontend::read_safetensors(argv[2])) weights[name] = weight;
  const Tensors tensors = load_in == "8bit"
                              ? packed_8bit(weights)
                              : packed_4bit(weights, load_in == "4bit" ? quantized::Nf4AbsmaxScaleEncoding::quantized
                                                                       : quantized::Nf4AbsmaxScaleEncoding::plain);
  std::vector<safetensors::TensorNameDtypeAndShape> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({name, *frontend::dtype_of(tensor.scalar_type()), tensor.sizes().vec()});
  const safetensors::Header header{safetensors::lay_out(specs), {}};
  std::string file = safetensors::print_header(header);
  for (const safetensors::TensorEntry& entry : header.entries)
    file.append(static_cast<const char*>(tensors.at(entry.name).const_data_ptr()), static_cast<size_t>(entry.bytes()));
  write_file(argv[3], file);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
