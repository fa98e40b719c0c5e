#include "core/quantized/blockwise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "core/quantized/dynamic_map.h"

namespace memtune::quantized {
namespace {

constexpr int64_t kBlock = 256;

using Code = std::array<float, 256>;

Code make_code() {
  const at::Tensor map = dynamic_map(true, c10::kCPU);
  Code code{};
  std::copy_n(map.const_data_ptr<float>(), code.size(), code.begin());
  return code;
}

const Code& code() {
  static const Code made = make_code();
  return made;
}

uint8_t nearest(float value) {
  const Code& all = code();
  const auto* right = std::ranges::lower_bound(all, value);
  if (right == all.begin()) return 0;
  if (right == all.end()) return 255;
  const auto index = static_cast<uint8_t>(right - all.begin());
  return std::abs(*right - value) < std::abs(value - *(right - 1)) ? index : index - 1;
}

// By the nearest of 65536 steps from -1 to 1, as bitsandbytes' loop for CPUs has it.
uint8_t code_of(float part) {
  constexpr float kHalf = 32767.5F;
  static const auto table = [] {
    std::array<uint8_t, 65536> made{};
    for (size_t i = 0; i < made.size(); ++i) made[i] = nearest(static_cast<float>(i) / kHalf - 1);
    return made;
  }();
  return table[static_cast<size_t>((part + 1) * kHalf + 0.5F)];
}

at::Tensor code_on(c10::Device device) {
  static std::mutex mutex;
  static std::map<int, at::Tensor> tables;
  const std::lock_guard lock(mutex);
  at::Tensor& table = tables[static_cast<int>(device.type()) * 256 + device.index()];
  if (!table.defined()) table = at::tensor(at::ArrayRef<float>(code()), at::kFloat).to(device);
  return table;
}

}  // namespace

// On the CPU: there is one number in 64 of a weight.
Blockwise pack_blockwise(const at::Tensor& numbers) {
  const at::Tensor plain = numbers.to(at::kCPU).contiguous();
  const int64_t count = plain.numel(), blocks = (count + kBlock - 1) / kBlock;
  Blockwise packed{at::empty({count}, at::kByte), at::empty({blocks}, at::kFloat)};
  const float* from = plain.const_data_ptr<float>();
  auto* bytes = packed.bytes.data_ptr<uint8_t>();
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kBlock, end = std::min(count, begin + kBlock);
    float largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(from[i]));
    packed.largest.data_ptr<float>()[block] = largest;
    const float inverse = 1 / largest;
    for (int64_t i = begin; i < end; ++i)
      bytes[i] = largest == 0 ? 0 : code_of(std::clamp(from[i] * inverse, -1.0F, 1.0F));
  }
  return {packed.bytes.to(numbers.device()), packed.largest.to(numbers.device())};
}

at::Tensor unpack_blockwise(const Blockwise& packed) {
  const int64_t count = packed.bytes.numel();
  at::Tensor numbers = code_on(packed.bytes.device()).index_select(0, packed.bytes.to(at::kInt));
  const int64_t whole = count / kBlock * kBlock;
  numbers.slice(0, 0, whole).view({-1, kBlock}).mul_(packed.largest.slice(0, 0, count / kBlock).unsqueeze(1));
  if (whole < count) numbers.slice(0, whole).mul_(packed.largest.slice(0, count / kBlock));
  return numbers;
}

}  // namespace memtune::quantized
