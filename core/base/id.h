// An index into a table, or none. The tag keeps the tables apart: an index is never a number that counts from 1, nor
// one into another table.
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
  constexpr size_t index() const { return index_; }  // none: beyond every table
  constexpr auto operator<=>(const Id&) const = default;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index_ = kNone;
};

}  // namespace memtune
