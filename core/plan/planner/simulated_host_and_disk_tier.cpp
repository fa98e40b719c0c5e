#include "core/plan/planner/simulated_host_and_disk_tier.h"

#include <algorithm>

namespace memtune::planner {
namespace {

using schedule::CachedPiecePtr;
using schedule::SpillableActivationPiece;

double ms(int64_t bytes, double gb_per_s) { return gb_per_s > 0 ? static_cast<double>(bytes) / (gb_per_s * 1e6) : 0; }

}  // namespace

CachedPiecePtr SimulatedHostAndDiskTier::put(int64_t bytes, bool may_spill) {
  auto piece = std::make_shared<Piece>();
  piece->bytes = bytes;
  cache_.put(*piece, may_spill);
  return piece;
}

double SimulatedHostAndDiskTier::free_after(const SpillableActivationPiece& piece) {
  return static_cast<const Piece&>(piece).range.free_after.ms;
}

void SimulatedHostAndDiskTier::stored(const CachedPiecePtr& piece, double out_done) {
  of(*piece).range.free_after.ms = out_done;
  cache_.stored(piece);
}

void SimulatedHostAndDiskTier::drop(const CachedPiecePtr& piece, std::optional<double> last_use) {
  if (piece->state == SpillableActivationPiece::State::used) return;
  if (last_use) of(*piece).range.free_after.ms = *last_use;
  cache_.drop(piece);
}

bool SimulatedHostAndDiskTier::lease(SpillableActivationPiece& piece) {
  const std::optional<Ranges::Range> range = pool_.try_lease(piece.bytes, [](int64_t) {});
  if (!range) return false;
  of(piece).range = *range;
  return of(piece).in_host = true;
}

void SimulatedHostAndDiskTier::lack_room(SpillableActivationPiece& piece) {
  of(piece).range = pool_.lease_over_budget(piece.bytes);
  of(piece).in_host = true;
}

void SimulatedHostAndDiskTier::free_room(SpillableActivationPiece& cached) {
  Piece& piece = of(cached);
  if (piece.in_host) pool_.deallocate(piece.range);
  piece.in_host = piece.has_request = false;
}

void SimulatedHostAndDiskTier::write(SpillableActivationPiece& cached) {
  Piece& piece = of(cached);
  const double begin = std::max({write_free_, clock_.host, piece.range.free_after.ms});
  piece.written = piece.done = write_free_ = begin + ms(piece.bytes, speeds_.write_gb_per_s);
  piece.has_request = true;
}

void SimulatedHostAndDiskTier::read(SpillableActivationPiece& cached) {
  Piece& piece = of(cached);
  const double begin = std::max({read_free_, clock_.host, piece.written, piece.range.free_after.ms});
  piece.done = read_free_ = begin + ms(piece.bytes, speeds_.read_gb_per_s);
  piece.has_request = true;
}

bool SimulatedHostAndDiskTier::busy(const SpillableActivationPiece& cached) const {
  const auto& piece = static_cast<const Piece&>(cached);
  return piece.has_request && !clock_.ended(piece.done);
}

}  // namespace memtune::planner
