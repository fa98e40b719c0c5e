// The pool hands the same bytes out again while copies of their former holder may still run: who gets them has to be
// told what to wait for.
#include "core/offload/host_pool.h"

#include <doctest/doctest.h>

#include "tests/support/training.h"

namespace memtune::offload {
namespace {

struct Switch final : device::Event {
  bool done() const override { return is_done; }
  void synchronize() override {}
  double ms_since(const device::Event&) const override { return 0; }
  bool is_done = false;
};

constexpr int64_t kPage = 4096;

HostPool::Lease take(HostPool& pool, int64_t bytes) { return pool.try_take(bytes).value(); }

TEST_CASE("leases are whole pages of one slab, and the pool grows by slabs") {
  HostPool pool(tests::test_device(), 4 * kPage);
  auto a = take(pool, 1), b = take(pool, kPage + 1);
  CHECK(a.bytes == kPage);
  CHECK(b.bytes == 2 * kPage);
  CHECK(b.data == a.data + kPage);
  CHECK(pool.reserved_bytes() == 4 * kPage);
  auto c = take(pool, 2 * kPage);  // one page is left: a new slab
  CHECK(pool.reserved_bytes() == 8 * kPage);
  auto d = take(pool, 9 * kPage);  // larger than a slab: one of its own
  CHECK(pool.reserved_bytes() == 17 * kPage);
  CHECK(pool.leased_bytes() == 14 * kPage);
  CHECK(pool.peak_leased_bytes() == 14 * kPage);
  for (const auto& lease : {a, b, c, d}) pool.give_back(lease, nullptr);
  CHECK(pool.leased_bytes() == 0);
}

TEST_CASE("a pool with a budget stays within it and uses all of it") {
  HostPool pool(tests::test_device(), 4 * kPage, /*budget_bytes=*/6 * kPage);
  auto a = take(pool, 3 * kPage), b = take(pool, 2 * kPage);  // the second slab is what is left of the budget
  CHECK(pool.reserved_bytes() == 6 * kPage);
  CHECK_FALSE(pool.try_take(2 * kPage));
  CHECK(take(pool, kPage).bytes == kPage);
  CHECK(pool.leased_bytes() == 6 * kPage);
  pool.give_back(b, nullptr);
  CHECK(take(pool, 2 * kPage).data == b.data);
  (void)a;
}

TEST_CASE("neighbours that come back become one range, in every order") {
  int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (auto& order : orders) {
    HostPool pool(tests::test_device(), 3 * kPage);
    HostPool::Lease leases[3] = {take(pool, kPage), take(pool, kPage), take(pool, kPage)};
    for (int i : order) pool.give_back(leases[i], nullptr);
    auto whole = take(pool, 3 * kPage);
    CHECK(whole.data == leases[0].data);
    CHECK(pool.reserved_bytes() == 3 * kPage);
    pool.give_back(whole, nullptr);
  }
}

TEST_CASE("the smallest range that fits is taken") {
  HostPool pool(tests::test_device(), 10 * kPage);
  auto three = take(pool, 3 * kPage), wall = take(pool, kPage), one = take(pool, kPage), wall2 = take(pool, kPage);
  pool.give_back(three, nullptr);
  pool.give_back(one, nullptr);
  CHECK(take(pool, kPage).data == one.data);
  CHECK(take(pool, 2 * kPage).data == three.data);
  (void)wall, (void)wall2;
}

TEST_CASE("bytes whose last copy still runs carry its event; when it is done they carry nothing") {
  HostPool pool(tests::test_device(), kPage);
  auto event = std::make_shared<Switch>();
  auto lease = take(pool, kPage);
  pool.give_back(lease, event);
  auto again = take(pool, kPage);
  REQUIRE(again.free_after.size() == 1);
  CHECK(again.free_after[0] == event);
  event->is_done = true;
  pool.give_back(again, event);
  CHECK(take(pool, kPage).free_after.empty());
}

TEST_CASE("a joined range carries the events of both halves") {
  HostPool pool(tests::test_device(), 2 * kPage);
  auto first = std::make_shared<Switch>(), second = std::make_shared<Switch>();
  auto a = take(pool, kPage), b = take(pool, kPage);
  pool.give_back(a, first);
  pool.give_back(b, second);
  CHECK(take(pool, 2 * kPage).free_after.size() == 2);
}

TEST_CASE("what was to come and is done by now is carried by no lease") {
  HostPool pool(tests::test_device(), 8 * kPage);
  auto event = std::make_shared<Switch>();
  pool.give_back(take(pool, 4 * kPage), event);
  event->is_done = true;
  for (int i = 0; i < 8; ++i) CHECK(take(pool, kPage).free_after.empty());
}

}  // namespace
}  // namespace memtune::offload
