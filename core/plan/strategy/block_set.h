// Sets of blocks in strategies and plan files, written "0-9:12:20-". Blocks are numbered from 0. A range without an end
// includes the last block.
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace memtune::plan {

class BlockSet {
 public:
  BlockSet() = default;  // all blocks
  // Throws UsageError that shows the form. "all" is valid too.
  explicit BlockSet(const std::string& text);

  bool all() const { return ranges_.empty(); }
  bool contains(int block) const;
  bool overlaps(const BlockSet& other) const;

  bool operator==(const BlockSet&) const = default;

  // Throws UsageError if a named block does not exist in a model with `blocks` blocks.
  void check(size_t blocks) const;

 private:
  struct Range {
    int first, last;
    auto operator<=>(const Range&) const = default;
  };
  friend std::string to_string(const BlockSet& ranges);

  std::vector<Range> ranges_;  // sorted; adjacent ranges are merged, except those without an end; empty: all
};
std::string to_string(const BlockSet& ranges);  // "0-9:12:20-", "all"

}  // namespace memtune::plan
