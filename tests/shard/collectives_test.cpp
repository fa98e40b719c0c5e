// Why: wrong gathers or sums train another model than the requested one. A rank that waits forever for another hangs
// the whole group.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/base/device/torch/make_device.h"
#include "core/engine/shard/by_device.h"
#include "core/engine/shard/pinned_tensor_allocator_and_copier.h"
#include "tests/shard/ranks.h"
namespace memtune::tests::collectives_test {
namespace {

using std::chrono::milliseconds;

// Only counts the calls.
struct Counting final : shard::Collectives {
  explicit Counting(int& count, milliseconds exposed_time) : count(count), time(exposed_time) {}
  int rank() const override { return 1; }
  int size() const override { return 2; }
  shard::PendingCollectivePtr all_gather(const at::Tensor&, const at::Tensor&, const std::string&,
                                         const device::EventPtr&) override {
    ++count;
    return nullptr;
  }
  shard::PendingCollectivePtr reduce_scatter(const at::Tensor&, const at::Tensor&, const std::string&) override {
    ++count;
    return nullptr;
  }
  std::chrono::nanoseconds exposed_time() override { return time; }

  int& count;
  milliseconds time;
};

TEST_CASE("all-gather concatenates in rank order and reduce-scatter gives each rank its own part") {
  for (const int size : {1, 2, 3, 4}) {
    on_ranks(size, [&](shard::Collectives& group) {
      const at::Tensor part = at::full({5}, group.rank() + 1.0), whole = at::zeros({5 * size});
      group.all_gather(whole, part, "a unit")->wait();
      const at::Tensor ranks = at::arange(1, size + 1, at::kFloat).repeat_interleave(5);
      CHECK(at::equal(whole, ranks));
      const at::Tensor sum = at::zeros({5});
      group.reduce_scatter(sum, at::arange(5 * size, at::kFloat) * (group.rank() + 1), "a unit")->wait();
      const at::Tensor all = at::arange(5 * size, at::kFloat) * (size * (size + 1) / 2);
      CHECK(at::equal(sum, all.narrow(0, 5 * group.rank(), 5)));
    });
  }
}

TEST_CASE("all-gather casts parts of another dtype and waits until a part has been copied to the device") {
  const auto device = device::make_device("cpu");
  on_ranks(3, [&](shard::Collectives& group) {
    const at::Tensor part = at::full({5}, group.rank() + 1.0 / 3, at::kDouble), whole = at::zeros({15});
    group.all_gather(whole, part, "a unit")->wait();
    const at::Tensor expected = (at::arange(3, at::kDouble) + 1.0 / 3).repeat_interleave(5).to(at::kFloat);
    CHECK(at::equal(whole, expected));
    const auto own = device::make_device("cpu");
    shard::PinnedTensorAllocatorAndCopier rows(*own);
    constexpr int64_t kMany = 1 << 20;  // the copy to the device still runs when all-gather is called
    const at::Tensor on_host = rows.make(kMany, at::kFloat).fill_(group.rank() + 1), all = at::zeros({3 * kMany});
    const auto device_copy = rows.copy_to_device(on_host, c10::kCPU);
    group.all_gather(all, device_copy.row, "a unit", device_copy.ready)->wait();
    CHECK(at::equal(all, at::arange(1, 4, at::kFloat).repeat_interleave(kMany)));
  });
}

TEST_CASE("device tensors use the device's collectives and CPU tensors those of the CPU") {
  int of_cpu = 0, of_device = 0;
  const auto both = shard::by_device(std::make_unique<Counting>(of_cpu, milliseconds(3)),
                                     std::make_unique<Counting>(of_device, milliseconds(5)));
  const at::Tensor here = at::zeros({2}), ready = at::zeros({2}, at::kMeta);
  both->all_gather(here, here, "a unit");
  both->reduce_scatter(ready, ready, "a unit");
  both->all_gather(ready, ready, "a unit");
  CHECK(of_cpu == 1);
  CHECK(of_device == 2);
  CHECK(both->rank() == 1);
  CHECK(both->size() == 2);
  CHECK(both->exposed_time() == milliseconds(5));
}

TEST_CASE("exposed_time includes the wait for a late rank") {
  on_ranks(2, [&](shard::Collectives& group) {
    if (group.rank() == 1) std::this_thread::sleep_for(milliseconds(400));
    group.all_gather(at::zeros({8}), at::zeros({4}), "a unit")->wait();
    if (group.rank() == 0) CHECK(group.exposed_time() >= milliseconds(100));
  });
}

TEST_CASE("all-gather accepts any dtype and reduce-scatter sums complex numbers") {
  for (const at::ScalarType type : {at::kBool, at::kShort, at::kLong, at::kHalf, at::kBFloat16, at::kFloat8_e4m3fn,
                                    at::kDouble, at::kComplexFloat}) {
    CAPTURE(c10::toString(type));
    on_ranks(3, [&](shard::Collectives& group) {
      const at::Tensor part = at::arange(group.rank(), group.rank() + 4).to(type);
      const at::Tensor whole = at::empty({12}, part.options());
      group.all_gather(whole, part, "a unit")->wait();
      const auto rows = whole.to(at::kComplexDouble).view({3, 4});
      for (int rank = 0; rank < 3; ++rank)
        CHECK(at::equal(rows[rank], at::arange(rank, rank + 4).to(type).to(at::kComplexDouble)));
    });
  }
  on_ranks(3, [&](shard::Collectives& group) {
    const at::Tensor whole = at::complex(at::arange(6.0f), at::arange(6.0f) * (group.rank() + 1));
    const at::Tensor part = at::empty({2}, whole.options());
    group.reduce_scatter(part, whole.clone(), "a unit")->wait();
    const at::Tensor own = at::arange(6.0f).narrow(0, 2 * group.rank(), 2);
    CHECK(at::equal(part, at::complex(own * 3, own * 6)));
  });
}

TEST_CASE("reduce-scatter gives the same bits in each repetition") {
  std::vector<at::Tensor> sums;
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::vector<at::Tensor> parts(4);
    on_ranks(4, [&](shard::Collectives& group) {
      at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU).clone();
      generator.set_current_seed(static_cast<uint64_t>(group.rank()));
      const at::Tensor whole = at::empty({4 * 1000}).normal_(0, 1, generator), part = at::empty({1000});
      group.reduce_scatter(part, whole, "a unit")->wait();
      parts[static_cast<size_t>(group.rank())] = part;
    });
    sums.push_back(at::cat(parts));
  }
  CHECK(at::equal(sums[0], sums[1]));
  CHECK(at::equal(sums[0], sums[2]));
}

TEST_CASE("a rank that does not arrive causes RankTimeoutError with the collective's name on the others") {
  try {
    on_ranks(
        2,
        [&](shard::Collectives& group) {
          if (group.rank() == 0) return group.all_gather(at::zeros({8}), at::zeros({4}), "layers.3")->wait();
          std::this_thread::sleep_for(milliseconds(3000));
        },
        milliseconds(1500));
    FAIL("nobody missed it");
  } catch (const shard::RankTimeoutError& error) {
    CHECK(std::string(error.what()) == "rank 0 waited 1.5 s for the others in the all-gather of layers.3");
  }
}

TEST_CASE("a rank that exits causes RankLostError with the collective's name on the others") {
  try {
    on_ranks(2, [&](shard::Collectives& group) {
      if (group.rank() == 0) group.all_gather(at::zeros({8}), at::zeros({4}), "layers.3")->wait();
    });
    FAIL("nobody missed it");
  } catch (const shard::RankLostError& error) {
    CHECK(std::string(error.what()) == "rank 0 lost another rank in the all-gather of layers.3");
  }
}

TEST_CASE("a rank that exits right after the rendezvous does not break the rendezvous of the others") {
  for (int time = 0; time < 50; ++time) on_ranks(8, [](shard::Collectives&) {});
}

TEST_CASE("connect throws RankTimeoutError if the rendezvous is incomplete") {
  CHECK_THROWS_AS(on_ranks(1,
                           [](shard::Collectives&) {
                             const test::ScratchFolder folder;
                             shard::connect({0, 2, (folder.path / "meeting").string(), milliseconds(300)});
                           }),
                  shard::RankTimeoutError);
}

}  // namespace
}  // namespace memtune::tests::collectives_test
