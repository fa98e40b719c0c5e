// The host tier and the simulated one get the same random calls. After each call both must have the same bytes in host
// memory and on the disk, and every piece in the same state. Requests end between two calls.
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/tier/disk_spilling_activation_host_tier.h"
#include "core/plan/planner/simulated_host_and_disk_tier.h"
#include "tests/support/cpu_emulated_device.h"
#include "tests/support/random.h"
namespace memtune::tier::agreement_test {
namespace {

using schedule::CachedPiecePtr;
using tests::cpu_device;
using tests::Random;

constexpr int64_t kPage = 4096, kSlab = 2 * kPage;

class Tiers {
 public:
  // Budgets are whole slabs: the simulated pool begins each step empty, the real one with the slabs that it has.
  Tiers(uint64_t seed, bool power_of_two)
      : random_(seed),
        budget_(power_of_two ? 0 : kPage * random_.of({0, 6, 10, 24})),
        power_of_two_(power_of_two),
        tier_(cpu_device(), kSlab, budget_,
              std::make_unique<disk::ScratchBlockStore>(disk::ScratchBlockStoreSettings{
                  .directory = std::filesystem::temp_directory_path(), .allow_memory = true}),
              true, power_of_two) {}

  void step(bool first) {
    tier_.begin_step();
    if (first) simulated_ = make(0);
    simulated_ = make(first ? 0 : simulated_->counters().put_bytes);
    tier_.start_recording();
    for (int i = 0, count = 5 + random_.below(20); i < count; ++i) put();
    while (!pieces_.empty()) take_back();
  }

 private:
  struct Piece {
    HostTierPiecePtr real;
    CachedPiecePtr simulated;
  };

  std::unique_ptr<planner::SimulatedHostAndDiskTier> make(int64_t last_step_bytes) {
    return std::make_unique<planner::SimulatedHostAndDiskTier>(
        planner::AllowedOffloadTiersAndHostBudget{budget_, /*disk=*/true}, planner::SimulatedHostAndDiskTier::Speeds{},
        kSlab, power_of_two_, last_step_bytes, clock_);
  }

  void compare(const std::string& after) {
    CAPTURE(after);
    tier_.stop_recording();  // waits for the requests
    tier_.start_recording();
    const schedule::DiskSpillingHostCache::Counters& simulated = simulated_->counters();
    CHECK(tier_.counters().disk_write_bytes == simulated.disk_write_bytes);
    CHECK(tier_.counters().disk_read_bytes == simulated.disk_read_bytes);
    CHECK(tier_.disk_bytes() == simulated.disk_bytes);
    tier_.reap();
    simulated_->cache().reap();
    CHECK(tier_.pool().leased_bytes() == simulated_->host_bytes());
    for (const Piece& piece : pieces_) CHECK(piece.real->state == piece.simulated->state);
  }

  void put() {
    const int64_t bytes = kPage / 2 * (1 + random_.below(4));
    const bool may_spill = !random_.one_in(8) || budget_ > 0;
    const Piece piece{tier_.put(bytes, may_spill), simulated_->put(bytes, may_spill)};
    pieces_.push_back(piece);
    tier_.stored(piece.real, cpu_device().record(device::StreamKind::out));
    simulated_->stored(piece.simulated, 0);
    compare("stored");
  }

  // Backward reads pieces ahead, then needs the newest.
  void take_back() {
    for (size_t i = pieces_.size(); i-- > 0;) {
      const bool started = tier_.read_ahead(pieces_[i].real);
      CHECK(started == simulated_->cache().read_ahead(pieces_[i].simulated));
      compare("read_ahead");
      if (!started || random_.one_in(3)) break;
    }
    const size_t next =
        random_.one_in(5) ? static_cast<size_t>(random_.below(static_cast<int>(pieces_.size()))) : pieces_.size() - 1;
    const Piece piece = pieces_[next];
    if (!random_.one_in(6)) {
      CHECK(tier_.ready(*piece.real) == simulated_->cache().ready(*piece.simulated));
      tier_.fetch(piece.real);
      simulated_->cache().fetch(*piece.simulated);
      compare("fetch");
    }
    tier_.drop(piece.real);
    simulated_->drop(piece.simulated);
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(next));
    compare("drop");
  }

  Random random_;
  const int64_t budget_;
  const bool power_of_two_;
  DiskSpillingActivationHostTier tier_;
  planner::SimulatedComputeAndHostClock clock_;
  std::unique_ptr<planner::SimulatedHostAndDiskTier> simulated_;
  std::vector<Piece> pieces_;
};

TEST_CASE("the host tier and the simulated one agree after every call") {
  for (const bool power_of_two : {false, true})
    for (uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(seed);
      CAPTURE(power_of_two);
      Tiers tiers(seed, power_of_two);
      for (int step = 0; step < 3; ++step) tiers.step(step == 0);
    }
}

}  // namespace
}  // namespace memtune::tier::agreement_test
