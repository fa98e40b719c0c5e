// Trains random programs on several ranks. Each rank is a process with its own random numbers and cast cache. Under
// every strategy and under random plans, a rank's loss, gradients, statistics and generator have the same bits as
// without an engine. The mean gradients equal those of one rank that has all batches.
//
//   MEMTUNE_RANDOM_PROGRAMS=1000    programs on two ranks, and a fifth of them on three and on four; default 20
//   MEMTUNE_RANDOM_SEED=17          seed of the first program; default 1
#include "tests/support/random.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/shard/rank_processes.h"
#include "tests/shard/written_programs.h"
#include "tests/support/random_drive.h"
#include "tests/support/samples.h"
namespace memtune::tests::shard_random_test {
namespace {

constexpr int kPlacements = 4;  // per program

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

bool any_rank(shard::Collectives& group, bool here) {
  const at::Tensor own = at::full({1}, here ? 1 : 0, at::TensorOptions(at::kLong));
  const at::Tensor all = at::empty({group.size()}, own.options());
  group.all_gather(all, own, "a test")->wait();
  return all.any().item<bool>();
}

// Ranks whose branches differ read parameters in different orders. Sharding rejects that.
bool branches_by_data(const RandomProgram& program) {
  const std::string text = program.text();
  return text.find("bool(") != std::string::npos || text.find("int(ids") != std::string::npos;
}

std::vector<Placement> some_placements(uint64_t seed) {
  std::vector<Placement> all = placements(seed), some;
  all.erase(all.begin());  // drops TorchScript's own interpreter, which does not support ranks
  Random random(seed);
  for (int i = 0; i < kPlacements; ++i) some.push_back(random.of(all));
  return some;
}

// The work of one rank. It stays in step with the other ranks, whatever it finds.
class RankOfPrograms {
 public:
  // The file `progress` holds the current program and plan. It shows where a rank crashed.
  RankOfPrograms(shard::Collectives& group, std::filesystem::path progress)
      : group_(group), progress_(std::move(progress)) {}

  void run(const RandomProgram& program) {
    const uint64_t seed = program.seed;
    const Rank rank{&group_, branches_by_data(program)};
    std::unique_ptr<Subject> whole, subject;
    try {
      whole = std::make_unique<Subject>(program, rank);
      subject = std::make_unique<Subject>(program, rank);
    } catch (const DoesNotRun& error) {
      reason_ = error.what();
    }
    if (any_rank(group_, !subject)) return;
    Random random(seed + static_cast<uint64_t>(group_.size()));
    subject->shard(random.of({shard::ReshardPolicy::always, shard::ReshardPolicy::always,
                              shard::ReshardPolicy::after_backward, shard::ReshardPolicy::never}));
    enter(std::to_string(seed) + ", beside one rank");
    if (!whole->refused()) tell(subject->failure_beside(*whole, group_.size() == 2 ? 2 : 1), program);
    for (const Placement& placement : some_placements(seed)) {
      enter(std::to_string(seed) + ", " + placement.text());
      tell(subject->failure(placement), program);
    }
    ++programs;
    alike += rank.alike;
  }

  const std::string& reason() const { return reason_; }  // why the last program did not run
  int programs = 0, alike = 0;

 private:
  void enter(const std::string& at) {
    at_ = at;
    std::ofstream(progress_) << "seed " << at_;
  }
  void tell(const std::string& failure, const RandomProgram& program) {
    CHECK_MESSAGE(failure.empty(), "rank " << group_.rank() << " of " << group_.size() << ", seed " << at_ << ": "
                                           << failure << "\n"
                                           << program.text());
  }

  shard::Collectives& group_;
  std::filesystem::path progress_;
  std::string at_, reason_;
};

void train(shard::Collectives& group, const std::filesystem::path& progress) {
  at::set_num_threads(1);
  RankOfPrograms rank(group, progress);
  const uint64_t first = from_environment("MEMTUNE_RANDOM_SEED", 1), step = group.size() == 2 ? 1 : 5;
  const uint64_t end = first + from_environment("MEMTUNE_RANDOM_PROGRAMS", 20);
  for (uint64_t seed = first; seed < end; seed += step) rank.run(random_program(seed));
  const int count = static_cast<int>((end - first + step - 1) / step);
  CHECK(rank.programs * 20 >= count * 18);  // up to a tenth of the programs do not run at all
  CHECK(rank.alike * 2 <= count + 2);
  for (const RandomProgram& program : written_programs()) {
    const int before = rank.programs;
    if (group.size() == 2) rank.run(program);
    if (group.size() == 2) CHECK_MESSAGE(rank.programs == before + 1, rank.reason() << "\n" << program.text());
  }
  MESSAGE(rank.programs << " programs, " << rank.alike << " of them with one batch for all ranks");
}

TEST_CASE("random programs on several ranks: gradients of one rank with all batches under every placement") {
  for (const int size : at_night() ? std::vector{2, 3, 4} : std::vector{2, 4})
    on_rank_processes("random programs on several ranks: gradients of one rank with all batches under every placement",
                      size, train);
}

}  // namespace
}  // namespace memtune::tests::shard_random_test
