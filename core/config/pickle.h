// What torch.save pickles of tensors in tuples, lists and dicts, as a tree of plain values: read, never run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::config {

struct PickleValue {
  enum class Kind { other, integer, text, global, sequence, dict, persistent, call } kind = Kind::other;
  int64_t integer = 0;
  std::string text;           // of a global "torch._utils _rebuild_tensor_v2"
  std::vector<size_t> parts;  // of a dict keys and values in turn; of a call what is called, and its arguments
};

struct PickleTree {
  std::vector<PickleValue> values;
  size_t root = 0;

  const PickleValue& at(size_t value) const { return values.at(value); }
};

// Nothing for an opcode that torch.save does not write, or a pickle that is cut off.
std::optional<PickleTree> parse_pickle(std::string_view text);

}  // namespace memtune::config
