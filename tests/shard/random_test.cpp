// Random programs trained by several ranks, each a process that has random numbers and a cache of casts of its own:
// under every strategy and under random plans loss, gradients, statistics and the generator of a rank have the bits
// that they have without an engine, and the gradients of all are those of one rank that has the batches of all.
//
//   MEMTUNE_RANDOM_PROGRAMS=1000    how many programs on two ranks, a fifth on three and on four; 100 without it
//   MEMTUNE_RANDOM_SEED=17          the first one's seed; 1 without it
//
// A rank is this program, started again with MEMTUNE_TEST_RANK.
#include "tests/support/random.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/shard/written_programs.h"
#include "tests/support/random_drive.h"
#include "tests/support/run_program.h"
#include "tests/support/training.h"

namespace memtune::tests {
namespace {

constexpr char kTestCase[] =
    "random programs on several ranks: gradients of one rank with all batches under every placement";
constexpr char kRankVariable[] = "MEMTUNE_TEST_RANK";  // "1/3 FILE": of three, which meet by the file
constexpr char kRan[] = " programs ran, ";
constexpr int kPlacements = 5;  // of a program

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

// Ranks whose branches differ read parameters in different orders, which is refused.
bool branches_by_data(const RandomProgram& program) {
  const std::string text = program.text();
  return text.find("bool(") != std::string::npos || text.find("int(ids") != std::string::npos;
}

std::vector<Placement> some_placements(uint64_t seed) {
  std::vector<Placement> all = placements(seed), some;
  all.erase(all.begin());  // TorchScript's own interpreter, which knows no ranks
  Random random(seed);
  for (int i = 0; i < kPlacements; ++i) some.push_back(random.of(all));
  return some;
}

// What a rank does; in step with the others, whatever it sees.
class RankOfPrograms {
 public:
  // `progress`, a file, tells of one that crashes where it was.
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
    subject->shard(random.of(
        {shard::Reshard::always, shard::Reshard::always, shard::Reshard::after_backward, shard::Reshard::never}));
    enter(std::to_string(seed) + ", beside one rank");
    if (!whole->refused()) tell(subject->failure_beside(*whole, group_.size() == 2 ? 2 : 1), program);
    for (const Placement& placement : some_placements(seed)) {
      enter(std::to_string(seed) + ", " + placement.text());
      tell(subject->failure(placement), program);
    }
    ++programs;
    alike += rank.alike;
  }

  const std::string& reason() const { return reason_; }  // why the last one did not run
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

std::filesystem::path progress_of(const std::filesystem::path& meeting, int rank) {
  return meeting.parent_path() / ("at" + std::to_string(rank));
}

void run_as_rank(const std::string& which) {
  at::set_num_threads(1);
  const size_t slash = which.find('/'), space = which.find(' ');
  const int number = std::stoi(which), size = std::stoi(which.substr(slash + 1));
  const std::string meeting = which.substr(space + 1);
  const auto group = shard::connect_by_gloo({number, size, meeting, std::chrono::seconds(60)});
  RankOfPrograms rank(*group, progress_of(meeting, number));
  const uint64_t first = from_environment("MEMTUNE_RANDOM_SEED", 1), step = group->size() == 2 ? 1 : 5;
  const uint64_t end = first + from_environment("MEMTUNE_RANDOM_PROGRAMS", 100);
  for (uint64_t seed = first; seed < end; seed += step) rank.run(random_program(seed));
  const int count = static_cast<int>((end - first + step - 1) / step);
  CHECK(rank.programs * 20 >= count * 18);  // the others do not run at all
  CHECK(rank.alike * 2 <= count + 2);
  for (const RandomProgram& program : written_programs()) {
    const int before = rank.programs;
    if (group->size() == 2) rank.run(program);
    if (group->size() == 2) CHECK_MESSAGE(rank.programs == before + 1, rank.reason() << "\n" << program.text());
  }
  MESSAGE(rank.programs << kRan << rank.alike << " of them with one batch for all ranks");
}

// What it printed, where it failed or did nothing.
std::string failure_of_rank(int rank, int size, const std::filesystem::path& folder) {
  const std::string me = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string log = (folder / ("log" + std::to_string(rank))).string();
  const std::filesystem::path meeting = folder / "meeting";
  const std::string which = std::to_string(rank) + "/" + std::to_string(size) + " " + meeting.string();
  const std::string line = std::string(kRankVariable) + "='" + which + "' exec '" + me + "' --test-case='" + kTestCase +
                           "' >'" + log + "' 2>&1";
  const int status = std::system(line.c_str());
  const std::string text = test::slurp(log);
  if (status == 0 && text.find(kRan) != std::string::npos) return "";
  return "rank " + which + " ended behind " + test::slurp(progress_of(meeting, rank)) + ": " + text;
}

TEST_CASE("random programs on several ranks: gradients of one rank with all batches under every placement") {
  if (const char* which = std::getenv(kRankVariable)) return run_as_rank(which);
  for (const int size : {2, 3, 4}) {
    const test::ScratchFolder folder;
    std::vector<std::string> failures(static_cast<size_t>(size));
    std::vector<std::thread> ranks;
    for (int i = 0; i < size; ++i)
      ranks.emplace_back([&, i] { failures[static_cast<size_t>(i)] = failure_of_rank(i, size, folder.path); });
    for (std::thread& rank : ranks) rank.join();
    for (const std::string& failure : failures) CHECK(failure == "");
  }
}

}  // namespace
}  // namespace memtune::tests
