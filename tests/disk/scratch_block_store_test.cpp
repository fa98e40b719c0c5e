// A block is read back bit for bit or fails. Order and timing of requests are as documented.
#include "core/engine/disk/scratch_block_store.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "tests/disk/support.h"
#include "tests/support/gate.h"

namespace memtune::block_store_test {

using namespace memtune;
using namespace memtune::disk;
using test::AlignedMemory;
using test::Fault;
using test::Gate;
using test::Stage;
using test::Watchdog;

namespace {

constexpr int64_t kPage = kAlignment;

// A written block and its expected content.
struct Written {
  Written(ScratchBlockStore& store, int64_t bytes, uint64_t seed) : memory(bytes), block(store.allocate(bytes)) {
    test::fill(memory.data(), bytes, seed);
    request = store.write(block, memory.data());
  }
  bool comes_back(ScratchBlockStore& store) const {
    AlignedMemory in(block.bytes());
    store.read(block, in.data())->wait();
    return holds(in);
  }
  bool holds(AlignedMemory& in) const { return std::memcmp(in.data(), memory.data(), block.bytes()) == 0; }

  mutable AlignedMemory memory;
  ScratchFileBlockHandle block;
  RequestPtr request;
};

}  // namespace

TEST_CASE("blocks of any size are read back unchanged in any order") {
  for (const IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    Stage stage(backend);
    ScratchBlockStore& store = stage.open();
    std::vector<std::unique_ptr<Written>> blocks;
    for (const int64_t bytes : {1, 4095, 4096, 4097, 100'000, 8 << 20, 3 << 20, 17})
      blocks.push_back(std::make_unique<Written>(store, bytes, blocks.size()));
    for (const auto& block : blocks) block->request->wait();
    for (const size_t i : {7, 0, 3, 5, 1, 6, 2, 4, 5}) CHECK(blocks[i]->comes_back(store));
    CHECK(test::entries(stage.folder.path) == 0);
    blocks.clear();
    CHECK(store.used_bytes() == 0);
  }
}

TEST_CASE("many requests in flight keep their own bytes") {
  for (const IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    Stage stage(backend);
    ScratchBlockStore& store = stage.open();
    std::vector<std::unique_ptr<Written>> blocks;
    for (uint64_t i = 0; i < 100; ++i) blocks.push_back(std::make_unique<Written>(store, 3 * kPage, i));
    std::vector<std::unique_ptr<AlignedMemory>> in;
    std::vector<RequestPtr> reads;
    for (const auto& block : blocks) {  // while writes are still pending
      in.push_back(std::make_unique<AlignedMemory>(3 * kPage));
      reads.push_back(store.read(block->block, in.back()->data()));
    }
    for (size_t i = 0; i < reads.size(); ++i) {
      reads[i]->wait();
      CHECK(reads[i]->done());
      CHECK(blocks[i]->holds(*in[i]));
    }
  }
}

TEST_CASE("a write reads its memory only after `before` has returned") {
  const Watchdog watchdog("write behind a gate");
  Stage stage;
  ScratchBlockStore& store = stage.open();
  const ScratchFileBlockHandle block = store.allocate(kPage);
  AlignedMemory data(kPage), in(kPage);
  Gate gate;
  const RequestPtr request = store.write(block, data.data(), [&] { gate.pass(); });
  CHECK_FALSE(request->done());
  test::fill(data.data(), kPage, 1);  // stands for the device's copy
  gate.open();
  request->wait();
  store.read(block, in.data())->wait();
  CHECK(std::memcmp(in.data(), data.data(), kPage) == 0);
}

TEST_CASE("a read leaves its memory alone until `before` has returned and is verified afterwards") {
  const Watchdog watchdog("read behind a gate");
  Stage stage;
  ScratchBlockStore& store = stage.open();
  const Written written(store, kPage, 1);
  AlignedMemory in(kPage);
  Gate gate;
  std::atomic<bool> untouched = false;
  const RequestPtr request = store.read(written.block, in.data(), [&] {
    gate.pass();
    untouched = in.data()[0] == 42;
  });
  in.data()[0] = 42;
  gate.open();
  request->wait();
  CHECK(untouched);
  CHECK(written.holds(in));
}

TEST_CASE("a read waits for the write of its block") {
  const Watchdog watchdog("read behind its write");
  Stage stage;
  ScratchBlockStore& store = stage.open();
  const ScratchFileBlockHandle block = store.allocate(kPage);
  AlignedMemory data(kPage), in(kPage);
  test::fill(data.data(), kPage, 1);
  Gate gate;
  const RequestPtr write = store.write(block, data.data(), [&] { gate.pass(); });
  const RequestPtr read = store.read(block, in.data());
  CHECK_FALSE(read->done());
  gate.open();
  read->wait();
  CHECK(write->done());
  CHECK(std::memcmp(in.data(), data.data(), kPage) == 0);
}

TEST_CASE("a request that waits in `before` does not delay the completion of earlier ones") {
  for (const IoBackend backend : test::backends()) {
    const Watchdog watchdog("news behind a gate");
    Stage stage(backend);
    ScratchBlockStore& store = stage.open();
    const Written first(store, kPage, 1);
    const ScratchFileBlockHandle second = store.allocate(kPage);
    Gate gate;
    AlignedMemory data(kPage);
    const RequestPtr held = store.write(second, data.data(), [&] { gate.pass(); });
    first.request->wait();
    CHECK(first.comes_back(store));  // a read passes a pending write
    CHECK_FALSE(held->done());
    gate.open();
    held->wait();
  }
}

TEST_CASE("transfers start in the order of the calls with at most `depth` in flight") {
  const Watchdog watchdog("order");
  Stage stage;
  stage.settings.depth = 2;
  std::vector<int64_t> offsets;
  stage.disk.on_submit = [&](const IoSubmission& transfer) { offsets.push_back(transfer.offset); };
  ScratchBlockStore& store = stage.open();
  std::vector<std::unique_ptr<Written>> blocks;
  for (uint64_t i = 0; i < 20; ++i) blocks.push_back(std::make_unique<Written>(store, kPage, i));
  for (const auto& block : blocks) block->request->wait();
  REQUIRE(offsets.size() == 20);
  CHECK(std::ranges::is_sorted(offsets));
}

TEST_CASE("the space of a block is free after the block is gone and its last request has ended") {
  const Watchdog watchdog("early release");
  Stage stage;
  ScratchBlockStore& store = stage.open();
  store.reserve(2 * kPage);
  AlignedMemory data(kPage);
  Gate gate;
  RequestPtr request;
  {
    const ScratchFileBlockHandle block = store.allocate(kPage);
    request = store.write(block, data.data(), [&] { gate.pass(); });
  }
  CHECK(store.used_bytes() == kPage);
  const ScratchFileBlockHandle other = store.allocate(kPage);  // gets other space
  gate.open();
  request->wait();
  CHECK(store.used_bytes() == kPage);
  const ScratchFileBlockHandle again = store.allocate(kPage);
  CHECK(store.reserved_bytes() == 2 * kPage);
}

TEST_CASE("state captured by `before` is destroyed before the request is done") {
  struct Slow {
    explicit Slow(std::shared_ptr<std::atomic<bool>> flag) : gone(std::move(flag)) {}
    ~Slow() {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      *gone = true;
    }
    std::shared_ptr<std::atomic<bool>> gone;
  };
  Stage stage;
  ScratchBlockStore& store = stage.open();
  const ScratchFileBlockHandle block = store.allocate(kPage);
  AlignedMemory data(kPage);
  for (const bool writing : {true, false}) {
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    auto before = [slow = std::make_shared<Slow>(gone)] {};
    if (writing) {
      store.write(block, data.data(), std::move(before))->wait();
    } else {
      store.read(block, data.data(), std::move(before))->wait();
    }
    CHECK(*gone);
  }
}

TEST_CASE("a block may outlive its store") {
  Stage stage;
  ScratchFileBlockHandle block;
  CHECK_FALSE(block);
  {
    ScratchBlockStore store(stage.settings);
    block = store.allocate(5);
    CHECK(block);
    CHECK(block.bytes() == 5);
  }
  block = ScratchFileBlockHandle();
}

TEST_CASE("closing a store waits for transfers in flight and fails the pending requests") {
  for (const IoBackend backend : test::backends()) {
    const Watchdog watchdog("the end of a store");
    Stage stage(backend);
    Gate gate, entered;
    stage.disk.on_submit = [&](const IoSubmission&) {
      entered.open();
      gate.pass();
    };
    stage.open();
    AlignedMemory data(kPage);
    const ScratchFileBlockHandle first = stage.store->allocate(kPage), second = stage.store->allocate(kPage);
    const RequestPtr running = stage.store->write(first, data.data());
    const RequestPtr waiting = stage.store->write(second, data.data(), [] { FAIL_CHECK("called after the end"); });
    entered.pass();
    Gate closing;
    std::thread closer([&] {
      closing.open();
      stage.store.reset();
    });
    closing.pass();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK_FALSE(running->done());
    gate.open();
    closer.join();
    CHECK(running->done());
    CHECK_NOTHROW(running->wait());
    CHECK_THROWS_WITH_AS(waiting->wait(), "the block store is closed", Error);
  }
}

TEST_CASE("reserved space is preallocated and used without new allocation") {
  Stage stage;
  ScratchBlockStore& store = stage.open();
  store.reserve(10 * kPage - 1);
  CHECK(store.reserved_bytes() == 10 * kPage);
  store.reserve(kPage);
  CHECK(store.reserved_bytes() == 10 * kPage);
  stage.disk.on_allocate = [](int64_t) { return std::optional(-ENOSPC); };
  std::vector<ScratchFileBlockHandle> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(store.allocate(kPage));
  CHECK(store.used_bytes() == 10 * kPage);
  CHECK_THROWS_AS(store.allocate(1), DiskFullError);
  blocks.pop_back();
  CHECK_NOTHROW(store.allocate(kPage));
}

TEST_CASE("a request beyond the budget is rejected with figures and the store stays usable") {
  Stage stage;
  stage.settings.budget_bytes = 10 * kPage;
  ScratchBlockStore& store = stage.open();
  CHECK_THROWS_WITH_AS(
      store.reserve(11 * kPage),
      ("the scratch file in '" + stage.folder.path.string() +
       "' has to hold 44 KiB, its budget is 40 KiB (0 B in use); raise --disk-budget or offload less to the disk")
          .c_str(),
      DiskFullError);
  store.reserve(10 * kPage);
  const Written most(store, 9 * kPage, 1);
  CHECK_THROWS_AS(store.allocate(2 * kPage), DiskFullError);
  CHECK(store.allocate(kPage));
  CHECK(most.comes_back(store));
}

TEST_CASE("an exception in `before` is thrown by the request and every later call") {
  const Watchdog watchdog("before throws");
  Stage stage;
  ScratchBlockStore& store = stage.open();
  const ScratchFileBlockHandle block = store.allocate(kPage);
  AlignedMemory data(kPage);
  const RequestPtr request = store.write(block, data.data(), [] { throw DeviceError("the device is gone"); });
  CHECK_THROWS_WITH_AS(request->wait(), "the device is gone", DeviceError);
  CHECK_THROWS_WITH_AS(request->wait(), "the device is gone", DeviceError);
  CHECK_THROWS_WITH_AS(store.allocate(1), "the device is gone", DeviceError);
  CHECK_THROWS_WITH_AS(store.read(block, data.data()), "the device is gone", DeviceError);
}

TEST_CASE("invalid calls are rejected and leave the store usable") {
  Stage stage, elsewhere;
  ScratchBlockStore& store = stage.open();
  AlignedMemory data(2 * kPage);
  const ScratchFileBlockHandle block = store.allocate(kPage), foreign = elsewhere.open().allocate(kPage);
  CHECK_THROWS_AS(store.allocate(0), Error);
  CHECK_THROWS_AS(store.read(block, data.data()), Error);                      // never written
  CHECK_THROWS_AS(store.write(ScratchFileBlockHandle(), data.data()), Error);  // an empty block
  CHECK_THROWS_AS(store.write(foreign, data.data()), Error);                   // a block of another store
  CHECK_THROWS_AS(store.write(block, data.data() + 1), Error);                 // unaligned
  store.write(block, data.data())->wait();
  CHECK_THROWS_AS(store.write(block, data.data()), Error);  // second write
  CHECK_NOTHROW(store.read(block, data.data())->wait());    // none of the errors was fatal
}

TEST_CASE("written and read bytes are counted separately") {
  Stage stage;
  ScratchBlockStore& store = stage.open();
  const Written written(store, 8 << 20, 1);
  CHECK(written.comes_back(store));
  CHECK(written.comes_back(store));
  CHECK(store.written().bytes == 8 << 20);
  CHECK(store.read().bytes == 16 << 20);
  for (const DiskQueueThroughputStats& traffic : {store.written(), store.read()}) {
    CHECK(traffic.busy.count() > 0);
    CHECK(traffic.checksum.count() > 0);
    CHECK(traffic.gb_per_s() > 0);
  }
}

TEST_CASE("registered memory works like any other") {
  Stage stage;
  ScratchBlockStore& store = stage.open();
  AlignedMemory memory(4 * kPage);
  store.pin(memory.data(), 2 * kPage);
  for (const int64_t at : {0, 1, 2}) {
    const ScratchFileBlockHandle block = store.allocate(2 * kPage);
    char* data = memory.data() + at * kPage;
    test::fill(data, 2 * kPage, 5);
    const std::string before(data, 2 * kPage);
    store.write(block, data)->wait();
    std::memset(data, 0, 2 * kPage);
    store.read(block, data)->wait();
    CHECK(std::string(data, 2 * kPage) == before);
  }
}

TEST_CASE("two stores in one folder are independent") {
  Stage stage;
  ScratchBlockStore one(stage.settings), two(stage.settings);
  const Written a(one, 3 * kPage, 1), b(two, 3 * kPage, 2);
  CHECK(a.comes_back(one));
  CHECK(b.comes_back(two));
}

TEST_CASE("a store works through the page cache and with an unlinked file") {
  Stage stage;
  stage.disk.on_open = [](int flags) { return test::unnamed(flags) || test::direct(flags) ? -EINVAL : 0; };
  ScratchBlockStore& store = stage.open();
  CHECK(store.description().ends_with("through the page cache, unlinked"));
  const Written written(store, 100'000, 1);
  CHECK(written.comes_back(store));
  CHECK(test::entries(stage.folder.path) == 0);
}

}  // namespace memtune::block_store_test
