// Blocks as in CUDACachingAllocator.cpp, compared with numbers computed by hand and with a plain search through all
// pieces.
#include "core/base/device/simulated_caching_allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace memtune::simulated_caching_allocator_test {

using namespace memtune;
using device::SimulatedCachingAllocator;

namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGrain = 512;

// Segments as lists of pieces, searched one by one.
class PlainCache {
 public:
  explicit PlainCache(int64_t cap_bytes = 0) : cap_bytes_(cap_bytes) {}

  int64_t take(int64_t bytes, int owner) {
    const int64_t asked = (bytes + kGrain - 1) / kGrain * kGrain;
    Piece* best = nullptr;
    for (auto& segment : segments_)
      for (Piece& piece : segment)
        if (piece.owner < 0 && piece.bytes >= asked && (!best || piece.bytes < best->bytes)) best = &piece;
    if (!best) {
      const int64_t segment = asked < 10 * kMiB ? 20 * kMiB : (asked + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
      if (cap_bytes_ > 0 && reserved_bytes() + segment > cap_bytes_) {
        std::erase_if(segments_, [](const auto& each) { return each.size() == 1 && each.front().owner < 0; });
        shortage_bytes_ = std::max(shortage_bytes_, reserved_bytes() + segment - cap_bytes_);
      }
      best = segments_.emplace_back(std::vector<Piece>{{segment, -1}}).data();
    }
    best->owner = owner;
    const int64_t rest = best->bytes - asked;
    if (rest <= kMiB) return best->bytes;
    best->bytes = asked;
    for (auto& segment : segments_)
      if (best >= segment.data() && best < segment.data() + segment.size()) {
        segment.insert(segment.begin() + (best - segment.data()) + 1, {rest, -1});
        break;
      }
    return asked;
  }
  void deallocate(int owner) {
    for (auto& segment : segments_)
      for (Piece& piece : segment)
        if (piece.owner == owner) piece.owner = -1;
    for (auto& segment : segments_)
      for (size_t i = 0; i + 1 < segment.size();)
        if (segment[i].owner < 0 && segment[i + 1].owner < 0) {
          segment[i].bytes += segment[i + 1].bytes;
          segment.erase(segment.begin() + static_cast<ptrdiff_t>(i) + 1);
        } else {
          ++i;
        }
  }
  int64_t reserved_bytes() const {
    int64_t bytes = 0;
    for (const auto& segment : segments_)
      for (const Piece& piece : segment) bytes += piece.bytes;
    return bytes;
  }
  int64_t shortage_bytes() const { return shortage_bytes_; }

 private:
  struct Piece {
    int64_t bytes;
    int owner;  // -1: free
  };
  int64_t cap_bytes_, shortage_bytes_ = 0;
  std::vector<std::vector<Piece>> segments_;
};

// A segment that grows, half a MiB to a cell. Cells behind the last one are unmapped.
class PlainGrowingSegment {
 public:
  explicit PlainGrowingSegment(size_t cap_cells) : cap_cells_(cap_cells) {}

  // The first cell.
  size_t take(size_t cells) {
    size_t begin = best_fit(cells);
    if (begin == kNowhere) {
      const size_t asked = cells < 20 ? kPage : (cells + 3) / 4 * 4;
      if (cap_cells_ > 0 && reserved() + asked > cap_cells_) {
        release();
        lacking_ = std::max(lacking_, reserved() + asked > cap_cells_ ? reserved() + asked - cap_cells_ : 0);
      }
      begin = room(cells);
      for (size_t page = begin / kPage; page * kPage < begin + cells; ++page)
        for (size_t cell = page * kPage; cell < (page + 1) * kPage; ++cell)
          if (at(cell) == Cell::unmapped) set(cell, Cell::free);
    }
    for (size_t cell = begin; cell < begin + cells; ++cell) set(cell, Cell::used);
    return begin;
  }
  void deallocate(size_t begin, size_t cells) {
    for (size_t cell = begin; cell < begin + cells; ++cell) set(cell, Cell::free);
  }
  size_t reserved() const { return cells_.size() - static_cast<size_t>(std::ranges::count(cells_, Cell::unmapped)); }
  size_t lacking() const { return lacking_; }
  size_t released() const { return released_; }

 private:
  enum class Cell : uint8_t { unmapped, free, used };
  static constexpr size_t kPage = 40, kNowhere = SIZE_MAX;

  Cell at(size_t cell) const { return cell < cells_.size() ? cells_[cell] : Cell::unmapped; }
  void set(size_t cell, Cell value) {
    if (cell >= cells_.size()) cells_.resize(cell + 1);
    cells_[cell] = value;
  }
  // Behind the last of the cells from this one on that are alike.
  size_t end_of(size_t cell) const {
    const Cell value = at(cell);
    while (cell < cells_.size() && at(cell) == value) ++cell;
    return cell;
  }
  size_t best_fit(size_t cells) const {
    std::vector<std::pair<size_t, size_t>> runs;  // of free cells: length, begin
    for (size_t cell = 0; cell < cells_.size(); cell = end_of(cell))
      if (at(cell) == Cell::free && end_of(cell) - cell >= cells) runs.emplace_back(end_of(cell) - cell, cell);
    std::ranges::sort(runs);
    const auto with_room = [&](const std::pair<size_t, size_t>& run) {
      const size_t end = run.second + run.first;
      if (end >= cells_.size()) return SIZE_MAX;
      return at(end) != Cell::unmapped ? run.first : end_of(end) >= cells_.size() ? SIZE_MAX : end_of(end) - run.second;
    };
    if (runs.empty()) return kNowhere;
    size_t chosen = 0;
    while (chosen + 1 < runs.size() && with_room(runs[chosen + 1]) < with_room(runs[chosen])) ++chosen;
    return runs[chosen].second;
  }
  size_t room(size_t cells) const {
    for (size_t cell = 0;; ++cell) {
      if (at(cell) != Cell::unmapped) continue;
      size_t begin = cell;
      while (begin > 0 && at(begin - 1) == Cell::free) --begin;
      size_t end = begin;
      while (end < cells_.size() && at(end) != Cell::used) ++end;
      if (end - begin >= cells || end >= cells_.size()) return begin;
      cell = end;
    }
  }
  void release() {
    for (size_t page = 0; page < cells_.size(); page += kPage)
      if (at(page) == Cell::free && end_of(page) - page >= kPage) {
        released_ += kPage;
        for (size_t cell = page; cell < page + kPage; ++cell) set(cell, Cell::unmapped);
      }
  }

  const size_t cap_cells_;
  std::vector<Cell> cells_;
  size_t lacking_ = 0, released_ = 0;
};

}  // namespace

TEST_CASE("a request without a free block gets a new segment that is split if over 1 MiB is left") {
  const auto held = [](int64_t bytes) { return SimulatedCachingAllocator(kGrain).take(bytes).bytes; };
  CHECK(held(49 * kMiB) == 50 * kMiB);
  CHECK(held(49 * kMiB + 1) == 50 * kMiB);
  CHECK(held(49 * kMiB - 1) == 50 * kMiB);  // 49 MiB of grains
  CHECK(held(49 * kMiB - 512) == 49 * kMiB - 512);
  CHECK(held(48 * kMiB) == 48 * kMiB);
  CHECK(held(9 * kMiB) == 9 * kMiB);
  CHECK(held(10 * kMiB - 512) == 10 * kMiB - 512);  // split from 20
  CHECK(held(11 * kMiB) == 12 * kMiB);
  CHECK(held(100) == 512);
  CHECK(held(0) == 0);
  CHECK(SimulatedCachingAllocator(1).take(49 * kMiB).bytes == 49 * kMiB);
}

TEST_CASE("a request gets the smallest free block that fits and gets it whole if little is left") {
  SimulatedCachingAllocator cache(kGrain);
  const auto large = cache.take(196 * kMiB), own = cache.take(49 * kMiB);
  cache.deallocate(large);
  cache.deallocate(own);
  CHECK(cache.take(49 * kMiB).bytes == 50 * kMiB);
  CHECK(cache.take(49 * kMiB).bytes == 49 * kMiB);  // split from the 196
  CHECK(cache.take(147 * kMiB - 512).bytes == 147 * kMiB);
  CHECK(cache.reserved_bytes() == 246 * kMiB);
}

TEST_CASE("adjacent free blocks are merged but segments are not") {
  SimulatedCachingAllocator cache(kGrain);
  const auto first = cache.take(6 * kMiB), second = cache.take(6 * kMiB), third = cache.take(6 * kMiB);
  cache.deallocate(first);
  cache.deallocate(third);
  cache.deallocate(second);
  const auto whole = cache.take(20 * kMiB);
  CHECK(whole.bytes == 20 * kMiB);
  CHECK(cache.reserved_bytes() == 20 * kMiB);
  const auto other = cache.take(20 * kMiB);
  cache.deallocate(whole);
  cache.deallocate(other);
  cache.take(40 * kMiB);
  CHECK(cache.reserved_bytes() == 80 * kMiB);
}

TEST_CASE("temporary memory leaves one segment that later requests reuse") {
  SimulatedCachingAllocator cache(kGrain);
  cache.pass(100 * kMiB);
  cache.pass(30 * kMiB);
  CHECK(cache.reserved_bytes() == 100 * kMiB);
  CHECK(cache.take(49 * kMiB).bytes == 49 * kMiB);
  cache.pass(60 * kMiB);
  CHECK(cache.reserved_bytes() == 160 * kMiB);
  SimulatedCachingAllocator none(1);
  none.pass(100 * kMiB);
  CHECK(none.reserved_bytes() == 0);
}

TEST_CASE("a cap releases segments that are free as a whole, and tells what is missing") {
  SimulatedCachingAllocator cache(kGrain);
  cache.set_cap(100 * kMiB);
  const auto whole = cache.take(40 * kMiB), part = cache.take(20 * kMiB), rest = cache.take(20 * kMiB);
  cache.deallocate(whole);
  cache.deallocate(part);
  cache.take(60 * kMiB);
  CHECK(cache.reserved_bytes() == 80 * kMiB);  // both free segments are gone
  CHECK(cache.shortage_bytes() == 0);
  CHECK(cache.peak_reserved_bytes() == 80 * kMiB);
  cache.reset_peak();
  cache.take(30 * kMiB);
  CHECK(cache.shortage_bytes() == 10 * kMiB);
  CHECK(cache.peak_reserved_bytes() == 110 * kMiB);
  cache.deallocate(rest);
}

TEST_CASE("a segment that grows is extended at its end, by pages of 20 MiB, and splits blocks of any size") {
  SimulatedCachingAllocator cache(kGrain);
  cache.expand_segments();
  const auto first = cache.take(5 * kMiB);
  CHECK(cache.reserved_bytes() == 20 * kMiB);
  const auto second = cache.take(30 * kMiB);  // 15 at the end are free
  CHECK(second.bytes == 30 * kMiB);
  CHECK(cache.reserved_bytes() == 40 * kMiB);
  cache.deallocate(first);
  const auto third = cache.take(4 * kMiB);  // in the place of the first, although the end has 5 free
  CHECK(third.bytes == 4 * kMiB);
  const auto fourth = cache.take(5 * kMiB);
  CHECK(cache.reserved_bytes() == 40 * kMiB);
  const auto fifth = cache.take(2 * kMiB);  // only 1 is free behind the third
  CHECK(cache.reserved_bytes() == 60 * kMiB);
  for (const auto& block : {second, fifth, third, fourth}) cache.deallocate(block);
  CHECK(cache.take(60 * kMiB).bytes == 60 * kMiB);
  CHECK(cache.reserved_bytes() == 60 * kMiB);
}

TEST_CASE("a segment that grows beyond the cap tells what is missing, until it begins again") {
  SimulatedCachingAllocator cache(kGrain);
  cache.expand_segments();
  cache.set_cap(60 * kMiB);
  const auto first = cache.take(40 * kMiB), second = cache.take(10 * kMiB);
  CHECK(cache.shortage_bytes() == 0);
  const auto third = cache.take(30 * kMiB);  // PyTorch compares its whole size, not the 20 that are missing
  CHECK(cache.shortage_bytes() == 30 * kMiB);
  for (const auto& block : {first, second, third}) cache.deallocate(block);
  cache.begin_again();
  CHECK(cache.shortage_bytes() == 0);
  CHECK(cache.reserved_bytes() == 0);
  cache.take(50 * kMiB);
  CHECK(cache.reserved_bytes() == 60 * kMiB);
  CHECK(cache.shortage_bytes() == 0);
}

TEST_CASE("sizes whose sum is no number of bytes are not merged") {
  SimulatedCachingAllocator cache(kGrain);
  cache.expand_segments();
  const int64_t huge = int64_t{1} << 62;
  const auto first = cache.take(huge), second = cache.take(huge), third = cache.take(huge);
  for (const auto& block : {first, second, third}) cache.deallocate(block);
  CHECK(cache.take(huge).bytes == huge);
}

TEST_CASE("random allocations and frees give the same blocks as a plain search") {
  std::mt19937 random(7);
  int short_ones = 0;
  for (int round = 0; round < 20; ++round) {
    const int64_t cap = round % 4 * 200 * kMiB;  // 0: none
    SimulatedCachingAllocator cache(kGrain);
    cache.set_cap(cap);
    PlainCache plain(cap);
    std::vector<std::pair<SimulatedCachingAllocator::Block, int>> taken;
    for (int i = 0; i < 400; ++i) {
      if (!taken.empty() && random() % 5 < 2) {
        const auto gone = taken.begin() + static_cast<ptrdiff_t>(random() % taken.size());
        cache.deallocate(gone->first);
        plain.deallocate(gone->second);
        taken.erase(gone);
        continue;
      }
      const auto kibs = static_cast<int64_t>(1025 + random() % (random() % 4 == 0 ? 64000 : 6000));
      const SimulatedCachingAllocator::Block block = cache.take(kibs << 10);
      REQUIRE(block.bytes == plain.take(kibs << 10, i));
      taken.emplace_back(block, i);
    }
    CHECK(cache.reserved_bytes() == plain.reserved_bytes());
    CHECK(cache.shortage_bytes() == plain.shortage_bytes());
    if (cap > 0) short_ones += cache.shortage_bytes() > 0;
  }
  CHECK(short_ones > 0);
}

TEST_CASE("a segment that grows releases free pages at its cap, as cells of half a MiB do") {
  constexpr int64_t kCell = kMiB / 2;
  std::mt19937 random(11);
  size_t released = 0, kept = 0, lacking = 0;
  for (int round = 0; round < 60; ++round) {
    const size_t cap = 400 + 40 * static_cast<size_t>(round % 10);
    SimulatedCachingAllocator cache(kGrain);
    cache.expand_segments();
    cache.set_cap(static_cast<int64_t>(cap) * kCell);
    PlainGrowingSegment plain(cap);
    struct Taken {
      SimulatedCachingAllocator::Block block;
      size_t begin, cells;
    };
    std::vector<Taken> taken;
    size_t held = 0;
    for (int i = 0; i < 600; ++i) {
      const size_t cells = 3 + random() % (random() % 6 == 0 ? 150 : 30);
      if (!taken.empty() && (held + cells > 340 || random() % 3 == 0)) {
        const auto gone = taken.begin() + static_cast<ptrdiff_t>(random() % taken.size());
        cache.deallocate(gone->block);
        plain.deallocate(gone->begin, gone->cells);
        held -= gone->cells;
        taken.erase(gone);
      } else {
        const auto block = cache.take(static_cast<int64_t>(cells) * kCell);
        taken.push_back({block, plain.take(cells), cells});
        held += cells;
      }
      REQUIRE(cache.reserved_bytes() == static_cast<int64_t>(plain.reserved()) * kCell);
      REQUIRE(cache.lasting_shortage_bytes() == static_cast<int64_t>(plain.lacking()) * kCell);
    }
    released += plain.released() > 0;
    kept += plain.released() > 0 && plain.lacking() == 0;
    lacking += plain.lacking() > 0;
  }
  MESSAGE(released << " released, " << kept << " of them had enough, " << lacking << " had not");
  CHECK(released > 10);
  CHECK(kept > 3);
  CHECK(lacking > 3);
}

}  // namespace memtune::simulated_caching_allocator_test
