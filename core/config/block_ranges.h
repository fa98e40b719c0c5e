// "0-9:12:20-": which blocks a part of a strategy or a rule of a plan file is about. Blocks are numbered from 0; a
// range without an end goes to the last one.
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace memtune::config {

class BlockRanges {
 public:
  BlockRanges() = default;  // all
  // UsageError that shows the form; "all" is one.
  explicit BlockRanges(const std::string& text);

  bool all() const { return ranges_.empty(); }
  bool contains(int block) const;
  bool overlaps(const BlockRanges& other) const;

  bool operator==(const BlockRanges&) const = default;

  // UsageError when a block is named that a model with `blocks` of them does not have.
  void check(size_t blocks) const;

 private:
  struct Range {
    int first, last;
    auto operator<=>(const Range&) const = default;
  };
  friend std::string to_string(const BlockRanges& ranges);

  std::vector<Range> ranges_;  // in order; those that touch are one, unless one goes to the last; empty: all
};
std::string to_string(const BlockRanges& ranges);  // "0-9:12:20-", "all"

}  // namespace memtune::config
