// CPU memory as a cache over the disk: what stays, what is written, and that every byte is read back.
#include "core/engine/tier/disk_spilling_activation_host_tier.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "tests/support/cpu_emulated_device.h"
#include "tests/support/faulty_disk.h"
namespace memtune::tier::host_tier_test {
namespace {

using tests::cpu_device;
constexpr int64_t kPage = 4096;

std::unique_ptr<disk::ScratchBlockStore> make_store(int64_t budget = 0) {
  return std::make_unique<disk::ScratchBlockStore>(disk::ScratchBlockStoreSettings{
      .directory = std::filesystem::temp_directory_path(), .budget_bytes = budget, .allow_memory = true});
}

// A page full of `value`, filled synchronously.
HostTierPiecePtr put(DiskSpillingActivationHostTier& tier, char value, bool may_spill = true) {
  HostTierPiecePtr piece = tier.put(kPage, may_spill);
  for (const auto& event : piece->lease.free_after()) event->synchronize();
  std::memset(piece->lease.data(), value, kPage);
  tier.stored(piece, cpu_device().record(device::StreamKind::out));
  return piece;
}

bool holds(const char* bytes, char value) {
  return std::all_of(bytes, bytes + kPage, [&](char byte) { return byte == value; });
}

std::vector<HostTierPiecePtr> put_many(DiskSpillingActivationHostTier& tier, int count) {
  std::vector<HostTierPiecePtr> pieces;
  for (int i = 0; i < count; ++i) pieces.push_back(put(tier, static_cast<char>(i + 1)));
  return pieces;
}

// Waits until dropped pieces are freed, after their writes.
void settle(DiskSpillingActivationHostTier& tier) {
  for (int i = 0; i < 1000 && tier.pool().leased_bytes() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tier.reap();
  }
}

void check_all(DiskSpillingActivationHostTier& tier, const std::vector<HostTierPiecePtr>& pieces) {
  for (size_t i = pieces.size(); i-- > 0;) {
    CHECK(holds(tier.fetch(pieces[i]), static_cast<char>(i + 1)));
    tier.drop(pieces[i]);
  }
  settle(tier);
  CHECK(tier.pool().leased_bytes() == 0);
}

TEST_CASE("a step that fits the budget is not written to disk once that is known") {
  DiskSpillingActivationHostTier tier(cpu_device(), kPage, 8 * kPage, make_store());
  check_all(tier, put_many(tier, 8));
  tier.begin_step();
  const auto pieces = put_many(tier, 8);
  CHECK(tier.counters().disk_write_bytes == 0);
  check_all(tier, pieces);
}

TEST_CASE("the oldest pieces beyond the budget go to disk and are read back") {
  DiskSpillingActivationHostTier tier(cpu_device(), kPage, 4 * kPage, make_store());
  const auto pieces = put_many(tier, 20);
  CHECK(tier.pool().peak_leased_bytes() == 4 * kPage);
  for (size_t i = 0; i < 16; ++i) CHECK(pieces[i]->state == OffloadedActivationPiece::State::on_disk);
  for (size_t i = 16; i < 20; ++i) CHECK(pieces[i]->lease.data() != nullptr);
  CHECK(tier.counters().disk_write_bytes >= 16 * kPage);
  check_all(tier, pieces);
}

TEST_CASE("read-ahead uses only free memory and its pieces are ready") {
  DiskSpillingActivationHostTier tier(cpu_device(), kPage, 4 * kPage, make_store());
  const auto pieces = put_many(tier, 12);
  HostTierPiecePtr away;
  for (const auto& piece : pieces)
    if (!away && piece->state == OffloadedActivationPiece::State::on_disk) away = piece;
  REQUIRE(away);
  CHECK_FALSE(tier.read_ahead(away));  // other pieces fill the budget
  CHECK_FALSE(tier.ready(*away));
  for (const auto& piece : pieces)
    if (piece != away) tier.drop(piece);
  settle(tier);
  CHECK(tier.read_ahead(away));
  CHECK(
      holds(tier.fetch(away), static_cast<char>(1 + (std::find(pieces.begin(), pieces.end(), away) - pieces.begin()))));
  CHECK(tier.ready(*away));
  CHECK(tier.counters().disk_read_bytes == kPage);
}

TEST_CASE("a piece that was read too early makes room for one that is needed now") {
  DiskSpillingActivationHostTier tier(cpu_device(), kPage, 2 * kPage, make_store());
  const auto pieces = put_many(tier, 6);
  for (size_t i = 4; i < 6; ++i) {
    tier.fetch(pieces[i]);
    tier.drop(pieces[i]);
  }
  for (size_t i : {0, 1})
    while (!tier.read_ahead(pieces[i])) {
    }
  CHECK(holds(tier.fetch(pieces[3]), 4));
  CHECK(pieces[1]->state == OffloadedActivationPiece::State::on_disk);
  tier.drop(pieces[3]);
  CHECK(holds(tier.fetch(pieces[1]), 2));
}

TEST_CASE("a full budget without a disk or without pieces that may spill is an error with figures") {
  DiskSpillingActivationHostTier tier(cpu_device(), kPage, 2 * kPage, nullptr);
  const auto a = put(tier, 1), b = put(tier, 2);
  CHECK_THROWS_WITH_AS(tier.put(kPage, true), doctest::Contains("8 KiB has no room for 4 KiB more, 8 KiB are taken"),
                       OutOfHostMemoryError);
  DiskSpillingActivationHostTier spilling(cpu_device(), kPage, 2 * kPage, make_store());
  const auto c = put(spilling, 1, false), d = put(spilling, 2, false);
  CHECK_THROWS_AS(spilling.put(kPage, true), OutOfHostMemoryError);
}

TEST_CASE("a full disk ends the step with the disk's error") {
  DiskSpillingActivationHostTier tier(cpu_device(), kPage, 2 * kPage, make_store(/*budget=*/4 * kPage));
  std::vector<HostTierPiecePtr> pieces;
  CHECK_THROWS_AS(
      [&] {
        for (int i = 0; i < 20; ++i) pieces.push_back(put(tier, 1));
      }(),
      DiskFullError);
  for (const auto& piece : pieces) tier.drop(piece);
  tier.begin_step();
}

TEST_CASE("a dropped piece frees its memory in every state") {
  DiskSpillingActivationHostTier tier(cpu_device(), kPage, 4 * kPage, make_store());
  auto pieces = put_many(tier, 9);
  while (!tier.read_ahead(pieces[0]))
    if (pieces.back()->state != OffloadedActivationPiece::State::used) tier.drop(pieces.back());
  for (const auto& piece : pieces) tier.drop(piece);
  for (const auto& piece : pieces) tier.drop(piece);  // a second drop has no effect
  settle(tier);
  CHECK(tier.pool().leased_bytes() == 0);
}

TEST_CASE("failed reads and reads of a failed store free their memory") {
  test::FaultyDisk disk;
  DiskSpillingActivationHostTier tier(
      cpu_device(), kPage, 4 * kPage,
      std::make_unique<disk::ScratchBlockStore>(
          disk::ScratchBlockStoreSettings{.directory = std::filesystem::temp_directory_path(), .allow_memory = true},
          disk));
  const auto pieces = put_many(tier, 8);
  for (size_t i = 4; i < 8; ++i) tier.drop(pieces[i]);
  settle(tier);
  disk.arm({test::Fault::Kind::failed, EIO, /*at=*/1, /*for_ever=*/true});
  CHECK_THROWS_AS(tier.fetch(pieces[0]), DiskOrFileSystemError);
  CHECK_THROWS_AS(tier.fetch(pieces[1]), DiskOrFileSystemError);
  CHECK_THROWS_AS(tier.read_ahead(pieces[2]), DiskOrFileSystemError);
  for (const auto& piece : pieces) tier.drop(piece);
  settle(tier);
  CHECK(tier.pool().leased_bytes() == 0);
}

TEST_CASE("every slab is registered for reads and writes before its use") {
  test::FaultyDisk disk;
  DiskSpillingActivationHostTier tier(
      cpu_device(), 2 * kPage, 8 * kPage,
      std::make_unique<disk::ScratchBlockStore>(
          disk::ScratchBlockStoreSettings{.directory = std::filesystem::temp_directory_path(), .allow_memory = true},
          disk));
  CHECK(disk.pins == 0);
  const auto two = put_many(tier, 2);
  CHECK(disk.pins == 2);
  const auto three_more = put_many(tier, 3);
  CHECK(tier.pool().reserved_bytes() == 6 * kPage);
  CHECK(disk.pins == 6);
  for (const auto& piece : two) tier.drop(piece);
  for (const auto& piece : three_more) tier.drop(piece);
  settle(tier);
}

}  // namespace
}  // namespace memtune::tier::host_tier_test
