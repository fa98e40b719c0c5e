// Parses pickles of torch.save that hold tensors in tuples, lists and dicts. The result is a tree; no code is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::model {

struct PickleValue {
  enum class Kind { other, integer, text, global, sequence, dict, persistent, call } kind = Kind::other;
  int64_t integer = 0;
  std::string text;           // a global is stored as "torch._utils _rebuild_tensor_v2"
  std::vector<size_t> parts;  // dict: keys and values alternate; call: the function and its arguments
};

struct PickleTree {
  std::vector<PickleValue> values;
  size_t root = 0;

  const PickleValue& at(size_t value) const { return values.at(value); }
};

// Returns nothing for a truncated pickle or an opcode that torch.save does not write.
std::optional<PickleTree> parse_pickle(std::string_view text);

}  // namespace memtune::model
