#include "core/plan/strategy/block_set.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::plan {
namespace {

constexpr int kLast = std::numeric_limits<int>::max();

// Returns -1 if `text` is no block number.
int parse_block(const std::string& text) {
  constexpr size_t kMaxDigits = 6;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && text.size() <= kMaxDigits ? std::stoi(text) : -1;
}

}  // namespace

BlockSet::BlockSet(const std::string& text) {
  if (trim(text) == "all") return;
  for (const std::string& part : split(text, ':')) {
    const size_t dash = part.find('-');
    const std::string end = dash == std::string::npos ? part : part.substr(dash + 1);
    const int first = parse_block(trim(part.substr(0, dash)));
    const int last = dash != std::string::npos && trim(end).empty() ? kLast : parse_block(trim(end));
    if (first < 0 || last < first)
      throw UsageError("'" + text +
                       "' names no blocks; write numbers and ranges with : between, as 0-9:12:20- (to "
                       "the last), or all");
    ranges_.push_back({first, last});
  }
  std::ranges::sort(ranges_);
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    // A range without an end is valid for any model. Merging it would lose block numbers that check() has to verify.
    const bool touches =
        !merged.empty() && range.last != kLast && merged.back().last != kLast && range.first <= merged.back().last + 1;
    if (touches)
      merged.back().last = std::max(merged.back().last, range.last);
    else if (merged.empty() || range != merged.back())
      merged.push_back(range);
  }
  ranges_ = std::move(merged);
}

bool BlockSet::contains(int block) const {
  const auto has = [&](const Range& range) { return range.first <= block && block <= range.last; };
  return all() || std::any_of(ranges_.begin(), ranges_.end(), has);
}

bool BlockSet::overlaps(const BlockSet& other) const {
  if (all() || other.all()) return true;
  for (const Range& a : ranges_)
    for (const Range& b : other.ranges_)
      if (a.first <= b.last && b.first <= a.last) return true;
  return false;
}

void BlockSet::check(size_t blocks) const {
  for (const Range& range : ranges_) {
    const int named = range.last == kLast ? range.first : range.last;
    if (static_cast<size_t>(named) >= blocks)
      throw UsageError("the model has no block " + std::to_string(named) + "; it has " +
                       (blocks == 0 ? "none" : "0 to " + std::to_string(blocks - 1)));
  }
}

std::string to_string(const BlockSet& ranges) {
  std::vector<std::string> parts;
  for (const auto& [first, last] : ranges.ranges_) {
    const std::string end = last == kLast ? "-" : "-" + std::to_string(last);
    parts.push_back(std::to_string(first) + (first == last ? "" : end));
  }
  return parts.empty() ? "all" : join(parts, ":");
}

}  // namespace memtune::plan
