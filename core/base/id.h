// An index into a table, or none. `Tag` makes indices of different tables different types.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace memtune {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;  // none
  constexpr explicit Id(size_t index) : index_(static_cast<uint32_t>(index)) {}

  constexpr explicit operator bool() const { return index_ != kNone; }
  constexpr size_t index() const { return index_; }  // none: larger than any table
  constexpr auto operator<=>(const Id&) const = default;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index_ = kNone;
};

}  // namespace memtune
