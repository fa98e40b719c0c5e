// Hashes of gradients on the device: the same number as on the host for every size and address, another one for any
// other bit, and no copy of a gradient whose hash is equal.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "core/base/device/cuda_kernels.h"
#include "core/base/device/device_memory_hash_value.h"
#include "core/base/device/torch/make_device.h"
#include "core/base/device/torch/torch_device.h"
#include "core/measure/trial/reference.h"
#include "core/plan/request/reference_file.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"

namespace memtune::gradient_hash_test {
namespace {

using Hash = std::array<uint64_t, 2>;
using trial::NamedParameters;

const std::string kNoKernels = "the module was built without nvcc";

c10::Device cuda() {
  static const auto device = device::make_device("cuda");
  return device::torch_device(*device);
}

Hash on_device(const at::Tensor& bytes) {
  const at::Tensor sums = at::zeros({2}, at::TensorOptions(cuda()).dtype(at::kLong));
  device::cuda_kernels()->hash_memory(bytes.const_data_ptr(), static_cast<int64_t>(bytes.nbytes()),
                                      reinterpret_cast<uint64_t*>(sums.mutable_data_ptr<int64_t>()), cuda().index());
  const at::Tensor here = sums.cpu();
  return {static_cast<uint64_t>(here[0].item<int64_t>()), static_cast<uint64_t>(here[1].item<int64_t>())};
}

Hash on_host(const at::Tensor& bytes) {
  const at::Tensor here = bytes.cpu().contiguous();
  std::vector<uint64_t> words((here.nbytes() + 7) / 8);
  std::memcpy(words.data(), here.const_data_ptr(), here.nbytes());
  Hash sums = {};
  for (size_t i = 0; i < words.size(); ++i) {
    const device::DeviceMemoryHashValue mixed = device::mixed_word(words[i], i);
    sums[0] += mixed.first;
    sums[1] += mixed.second;
  }
  return sums;
}

at::Tensor random_bytes(int64_t size) { return at::randint(256, {size}, at::TensorOptions(cuda()).dtype(at::kByte)); }

NamedParameters model(int64_t width) {
  NamedParameters parameters;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    at::Tensor parameter = at::zeros({width, 7}, at::TensorOptions(cuda()).dtype(type)).requires_grad_();
    parameter.mutable_grad() = at::arange(width * 7, at::TensorOptions(cuda())).view({width, 7}).to(type);
    parameters.emplace_back(c10::toString(type), parameter);
  }
  return parameters;
}

}  // namespace

TEST_CASE("a hash on the device equals the host's for every size and address") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  for (const int64_t size : {1, 7, 8, 9, 63, 2047, 2048, 2049, 65543, (1 << 22) + 5, (1 << 25) + 3}) {
    CAPTURE(size);
    const at::Tensor bytes = random_bytes(size + 8);
    for (int64_t offset = 0; offset < 8; ++offset) {
      CAPTURE(offset);
      const at::Tensor part = bytes.narrow(0, offset, size);
      CHECK(on_device(part) == on_host(part));
    }
  }
}

TEST_CASE("any changed bit and any moved word changes both parts of a hash") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  const at::Tensor bytes = at::zeros({512}, at::TensorOptions(cuda()).dtype(at::kByte));
  std::set<uint64_t> first, second;
  const auto add = [&] {
    const Hash hash = on_device(bytes);
    CHECK(first.insert(hash[0]).second);
    CHECK(second.insert(hash[1]).second);
  };
  add();
  for (int64_t at = 0; at < bytes.numel(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] = 1 << bit;
      add();
      bytes[at] = 0;
    }
}

TEST_CASE("gradients on a GPU are compared there and differences are found") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  const test::ScratchFolder folder;
  const std::filesystem::path file = folder.path / "reference.bin";
  {
    trial::ReferenceGradientFileWriter writer(file, "none", 0.5, model(100));
    writer.repeat(0.5, model(100));
    CHECK(writer.noise().equal);
    writer.finish();
  }
  for (const plan::ReferenceGradientFileEntry& entry : plan::read_reference(file).gradients)
    CHECK(entry.device_hash.size() == 32);
  const auto compared = [&](const NamedParameters& found) {
    return trial::compare_with_reference(file, 0.5, found).gradients;
  };
  CHECK(compared(model(100)).equal);
  for (size_t i = 0; i < model(100).size(); ++i) {
    NamedParameters other = model(100);
    other[i].second.mutable_grad()[99][6] += 8;
    const result::GradientComparison found = compared(other);
    CHECK_FALSE(found.equal);
    CHECK(found.worst == other[i].first);
  }
  // A gradient with other strides has the same numbers.
  NamedParameters transposed = model(100);
  at::Tensor& gradient = transposed[0].second.mutable_grad();
  gradient = gradient.t().contiguous().t();
  CHECK(compared(transposed).equal);
}

}  // namespace memtune::gradient_hash_test
