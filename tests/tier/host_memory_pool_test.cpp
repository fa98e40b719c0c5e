// The pool leases bytes again while copies of the previous holder may still run. The new lease must carry the events to
// wait for.
#include "core/engine/tier/host_memory_pool.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/support/cpu_emulated_device.h"
namespace memtune::tier::host_memory_pool_test {
namespace {

using tests::cpu_device;
struct Switch final : device::StreamEvent {
  bool done() const override { return is_done; }
  void synchronize() override {}
  double ms_since(const device::StreamEvent&) const override { return 0; }
  bool is_done = false;
};

constexpr int64_t kPage = 4096;

HostMemoryPool::Lease take(HostMemoryPool& pool, int64_t bytes) { return pool.try_lease(bytes).value(); }

TEST_CASE("leases are whole pages of one slab and the pool grows by slabs") {
  HostMemoryPool pool(cpu_device(), 4 * kPage);
  auto a = take(pool, 1), b = take(pool, kPage + 1);
  CHECK(a.bytes() == kPage);
  CHECK(b.bytes() == 2 * kPage);
  CHECK(b.data() == a.data() + kPage);
  CHECK(pool.reserved_bytes() == 4 * kPage);
  auto c = take(pool, 2 * kPage);  // only one page is left: needs a new slab
  CHECK(pool.reserved_bytes() == 8 * kPage);
  auto d = take(pool, 9 * kPage);  // larger than a slab: gets its own
  CHECK(pool.reserved_bytes() == 17 * kPage);
  CHECK(pool.leased_bytes() == 14 * kPage);
  CHECK(pool.peak_leased_bytes() == 14 * kPage);
  for (auto* lease : {&a, &b, &c, &d}) *lease = {};
  CHECK(pool.leased_bytes() == 0);
}

TEST_CASE("a pool of powers of two gives each lease a slab and reuses it only for the same size") {
  HostMemoryPool pool(cpu_device(), 64 * kPage, 0, true, /*power_of_two=*/true);
  auto a = take(pool, 3 * kPage), b = take(pool, kPage);
  CHECK(a.bytes() == 4 * kPage);
  CHECK(pool.reserved_bytes() == 5 * kPage);
  char* const data = a.data();
  a = {}, b = {};
  CHECK(take(pool, 2 * kPage).bytes() == 2 * kPage);  // not half of the free slab of four pages
  CHECK(pool.reserved_bytes() == 7 * kPage);
  CHECK(take(pool, 4 * kPage).data() == data);
  CHECK(pool.reserved_bytes() == 7 * kPage);
}

TEST_CASE("a pool with a budget stays within it and uses all of it") {
  HostMemoryPool pool(cpu_device(), 4 * kPage, /*budget_bytes=*/6 * kPage);
  auto a = take(pool, 3 * kPage), b = take(pool, 2 * kPage);  // the second slab has the rest of the budget
  CHECK(pool.reserved_bytes() == 6 * kPage);
  CHECK_FALSE(pool.try_lease(2 * kPage));
  auto c = take(pool, kPage);
  CHECK(pool.leased_bytes() == 6 * kPage);
  char* const data = b.data();
  b = {};
  CHECK(take(pool, 2 * kPage).data() == data);
}

TEST_CASE("freed neighbors merge into one range in every order") {
  int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (auto& order : orders) {
    HostMemoryPool pool(cpu_device(), 3 * kPage);
    HostMemoryPool::Lease leases[3] = {take(pool, kPage), take(pool, kPage), take(pool, kPage)};
    char* const data = leases[0].data();
    for (int i : order) leases[i] = {};
    auto whole = take(pool, 3 * kPage);
    CHECK(whole.data() == data);
    CHECK(pool.reserved_bytes() == 3 * kPage);
  }
}

TEST_CASE("the smallest range that fits is leased") {
  HostMemoryPool pool(cpu_device(), 10 * kPage);
  auto three = take(pool, 3 * kPage), wall = take(pool, kPage), one = take(pool, kPage), wall2 = take(pool, kPage);
  char *const small = one.data(), *const large = three.data();
  three = {};
  one = {};
  auto first = take(pool, kPage);
  CHECK(first.data() == small);
  CHECK(take(pool, 2 * kPage).data() == large);
}

TEST_CASE("a lease carries the event of the last copy on its bytes until the copy is done") {
  HostMemoryPool pool(cpu_device(), kPage);
  auto event = std::make_shared<Switch>();
  auto lease = take(pool, kPage);
  lease.set_free_after(event);
  lease = {};
  auto again = take(pool, kPage);
  REQUIRE(again.free_after().size() == 1);
  CHECK(again.free_after()[0] == event);
  event->is_done = true;
  again = {};
  CHECK(take(pool, kPage).free_after().empty());
}

TEST_CASE("a holder that never waited for earlier copies passes their events on") {
  HostMemoryPool pool(cpu_device(), kPage);
  auto event = std::make_shared<Switch>();
  auto lease = take(pool, kPage);
  lease.set_free_after(event);
  lease = {};
  take(pool, kPage);
  CHECK(take(pool, kPage).free_after().size() == 1);
}

TEST_CASE("a moved lease returns its bytes once and from its new owner") {
  HostMemoryPool pool(cpu_device(), 2 * kPage);
  auto a = take(pool, kPage), b = take(pool, kPage);
  char* const data = a.data();
  HostMemoryPool::Lease moved(std::move(a));
  CHECK_FALSE(a);
  CHECK(moved.data() == data);
  CHECK(pool.leased_bytes() == 2 * kPage);
  b = std::move(moved);  // releases b's own bytes
  CHECK(pool.leased_bytes() == kPage);
  CHECK(b.data() == data);
  auto& same = b;
  b = std::move(same);
  CHECK(pool.leased_bytes() == kPage);
  CHECK(b.data() == data);
}

TEST_CASE("an event that throws stays with its bytes") {
  struct Lost final : device::StreamEvent {
    bool done() const override { throw DeviceError("lost"); }
    void synchronize() override { throw DeviceError("lost"); }
    double ms_since(const device::StreamEvent&) const override { return 0; }
  };
  HostMemoryPool pool(cpu_device(), 2 * kPage);
  auto a = take(pool, kPage), b = take(pool, kPage);
  a.set_free_after(std::make_shared<Lost>());
  a = {};
  b = {};
  CHECK(pool.leased_bytes() == 0);
  CHECK(take(pool, 2 * kPage).free_after().size() == 1);
}

TEST_CASE("a merged range carries the events of both halves") {
  HostMemoryPool pool(cpu_device(), 2 * kPage);
  auto a = take(pool, kPage), b = take(pool, kPage);
  a.set_free_after(std::make_shared<Switch>());
  b.set_free_after(std::make_shared<Switch>());
  a = {};
  b = {};
  CHECK(take(pool, 2 * kPage).free_after().size() == 2);
}

TEST_CASE("a merged range carries only the last event of a stream in every order and queries none") {
  struct Numbered final : device::StreamEvent {
    explicit Numbered(int number) : number(number) {}
    bool done() const override { return ++asked, false; }
    void synchronize() override {}
    bool implies(const device::StreamEvent& other) const override {
      return number >= static_cast<const Numbered&>(other).number;
    }
    double ms_since(const device::StreamEvent&) const override { return 0; }
    int number;
    mutable int asked = 0;
  };
  int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const bool rising : {true, false})
    for (auto& order : orders) {
      HostMemoryPool pool(cpu_device(), 3 * kPage);
      HostMemoryPool::Lease leases[3] = {take(pool, kPage), take(pool, kPage), take(pool, kPage)};
      std::shared_ptr<Numbered> events[3];
      for (int i = 0; i < 3; ++i) {
        events[i] = std::make_shared<Numbered>(rising ? i : -i);
        leases[i].set_free_after(events[i]);
      }
      for (int i : order) leases[i] = {};
      for (const auto& event : events) CHECK(event->asked == 0);
      const auto whole = take(pool, 3 * kPage);
      REQUIRE(whole.free_after().size() == 1);
      CHECK(whole.free_after()[0] == events[rising ? 2 : 0]);
    }
}

TEST_CASE("a lease does not carry an event that is done") {
  HostMemoryPool pool(cpu_device(), 8 * kPage);
  auto event = std::make_shared<Switch>();
  take(pool, 4 * kPage).set_free_after(event);
  event->is_done = true;
  for (int i = 0; i < 8; ++i) CHECK(take(pool, kPage).free_after().empty());
}

}  // namespace
}  // namespace memtune::tier::host_memory_pool_test
