// The disk fails during a training step, at every call and in every way. The step gives the bits of plain autograd or
// ends in a typed error, also through autograd's backward. It never hangs and leaves nothing behind.
#include <doctest/doctest.h>

#include <cerrno>
#include <string>

#include "core/base/error.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/run_program.h"
#include "tests/support/training.h"
#include "tests/support/watchdog.h"
namespace memtune::tests::disk_faults_test {
namespace {

using test::Fault;

// The blocks save more pages than the budget of CPU memory has.
constexpr const char* kSource = R"(
def forward(self, x):
    return x + torch.matmul(torch.tanh(torch.matmul(x, self.a)), self.b)
)";
constexpr int kBlocks = 6, kWidth = 32, kRows = 32;

enum class End { right, wrong, disk_full, disk_error, corrupt, other };

class FaultyTraining {
 public:
  explicit FaultyTraining(const std::string& strategy)
      : model_(kSource, kBlocks, kWidth, {"a", "b"}, kRows),
        program_(tests::lower(model_.module(), frontend::LossKind::returned, "", device::torch_device(test_device()))),
        facts_(model_.surveyed(program_)),
        plan_(plan::make_plan(plan::Strategy::parse(strategy), facts_)),
        plain_(model_.plain()) {
    plan_.saved_min_bytes = plan_.transfer.min_bytes = 0;
    model_.clear();
  }

  End step(const Fault& fault) {
    const test::ScratchFolder folder;
    disk_.arm(fault);
    const End end = train(folder.path);
    model_.clear();
    CHECK(std::filesystem::is_empty(folder.path));
    return end;
  }
  int calls() const { return disk_.calls(); }

 private:
  End train(const std::filesystem::path& folder) {
    try {
      step::HostBudgetAndScratchStore tiers;
      tiers.host_budget_bytes = 3 * 4096;
      tiers.store = std::make_unique<disk::ScratchBlockStore>(
          disk::ScratchBlockStoreSettings{.directory = folder, .allow_memory = true}, disk_);
      const Step step = model_.under(program_, facts_, plan_, std::move(tiers));
      CHECK(step.leased_after == 0);
      return same(step, plain_) ? End::right : End::wrong;
    } catch (const DiskFullError&) {
      return End::disk_full;
    } catch (const DiskOrFileSystemError&) {
      return End::disk_error;
    } catch (const DiskDataCorruptionError&) {
      return End::corrupt;
    } catch (const std::exception& error) {
      MESSAGE(error.what());
      return End::other;
    }
  }

  Model model_;
  program::Program program_;
  plan::ProgramFacts facts_;
  plan::Plan plan_;
  Step plain_;
  test::FaultyDisk disk_;
};

struct Case {
  const char* name;
  Fault fault;
  End end;  // if the fault is permanent
};

const Case kCases[] = {
    {"ENOSPC", {Fault::Kind::failed, ENOSPC}, End::disk_full},
    {"EIO", {Fault::Kind::failed, EIO}, End::disk_error},
    {"short", {Fault::Kind::nothing, 0}, End::disk_error},
    {"flipped", {Fault::Kind::flipped, 0}, End::corrupt},
};

TEST_CASE("a disk that fails in a step ends it with a typed error or the gradients are right") {
  for (const char* strategy : {"checkpoint:full,inputs=disk", "offload:group,tier=disk"}) {
    FaultyTraining training(strategy);
    REQUIRE(training.step({}) == End::right);
    const int calls = training.calls();
    REQUIRE(calls > 15);  // opens the file, writes and reads what CPU memory has no room for
    const int64_t before = test_device().memory().allocated;
    const size_t descriptors = test::entries("/proc/self/fd");
    for (const Case& c : kCases)
      for (const bool for_ever : {false, true}) {
        int expected = 0;
        for (int at = 1; at <= calls; ++at) {
          INFO(strategy << ", " << c.name << (for_ever ? " from call " : " at call ") << at);
          const test::Watchdog watchdog(std::string(strategy) + ", " + c.name);
          Fault fault = c.fault;
          fault.at = at;
          fault.for_ever = for_ever;
          const End end = training.step(fault);
          CHECK((end == End::right || end == c.end));
          expected += end == c.end ? 1 : 0;
          CHECK(test_device().memory().allocated == before);
          CHECK(test::entries("/proc/self/fd") == descriptors);
        }
        if (for_ever) CHECK(expected > calls / 3);
      }
  }
}

}  // namespace
}  // namespace memtune::tests::disk_faults_test
