// Runs random programs under every strategy and under random plans. Loss, gradients, running statistics and the
// generator have the bits of plain autograd, however the steps are run. Nothing is held afterwards.
//
//   MEMTUNE_RANDOM_PROGRAMS=1000    number of programs, default 20
//   MEMTUNE_RANDOM_SEED=17          seed of the first program, default 1
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/support/random_drive.h"
namespace memtune::tests::conformance_random_test {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr uint64_t kMaxReports = 3;

// Small tensors do not gain from threads that wait for each other.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

std::string report(const RandomProgram& program, const Placement& placement, const std::string& failure) {
  const auto still_fails = [&](const RandomProgram& candidate) {
    try {
      return !Subject(candidate).failure(placement).empty();
    } catch (const std::exception&) {  // not a program any more
      return false;
    }
  };
  const RandomProgram reduced = reduce(program, still_fails);
  return placement.text() + ": " + failure +
         "\nagain with MEMTUNE_RANDOM_PROGRAMS=1 MEMTUNE_RANDOM_SEED=" + std::to_string(program.seed) + "; reduced (" +
         Subject(reduced).failure(placement) + "):\n" + reduced.text();
}

TEST_CASE("random programs give the bits of plain autograd under every placement and leave nothing behind") {
  const uint64_t first = from_environment("MEMTUNE_RANDOM_SEED", 1);
  const uint64_t count = from_environment("MEMTUNE_RANDOM_PROGRAMS", 20);
  const OneThread one_thread;
  uint64_t wrong = 0, refused = 0, invalid = 0;
  for (uint64_t seed = first; seed < first + count && wrong < kMaxReports; ++seed) {
    CAPTURE(seed);
    const RandomProgram program = random_program(seed);
    try {
      Subject subject(program);
      refused += subject.refused();
      for (const Placement& placement : placements(seed)) {
        const std::string failure = subject.failure(placement);
        if (failure.empty()) continue;
        ++wrong;
        FAIL_CHECK(report(program, placement, failure));
        break;
      }
    } catch (const DoesNotRun& error) {
      ++invalid;
      INFO(std::string(error.what()));
      CHECK(invalid * 20 <= count + 20);
    }
  }
  MESSAGE(refused << " of " << count << " programs write over saved tensors, and every placement refuses them; "
                  << invalid << " do not run at all");
  CHECK(refused * 5 <= count + 5);
}

TEST_CASE("a random program depends only on its seed") {
  CHECK(random_program(5).text() == random_program(5).text());
  CHECK(random_program(5).text() != random_program(6).text());
}

TEST_CASE("random programs contain every construct that they are meant to test") {
  std::string all;
  for (uint64_t seed = 1; seed <= 400; ++seed) all += random_program(seed).text();
  for (const char* part : {".view(",
                           ".t()",
                           ".permute(",
                           ".expand(",
                           "torch.narrow(",
                           "torch.chunk(",
                           "torch.split(",
                           "torch.cat(",
                           "torch.stack(",
                           ".add_(",
                           ".copy_(",
                           "relu_(",
                           "[:, 0:1] =",
                           "torch.dropout(",
                           "dropout_(",
                           "torch.softmax(",
                           "torch.layer_norm(",
                           "torch.batch_norm(",
                           "torch.bmm(",
                           "scaled_dot_product_attention(",
                           "index_select(",
                           "torch.where(",
                           "torch.masked_fill(",
                           "self.alias",
                           "self.frozen",
                           "break",
                           "for ",
                           "if ",
                           "else:",
                           ".append(",
                           "the blocks share a",
                           "autocast",
                           "torch.detach(",
                           "view_as_complex(",
                           "self.count.add_",
                           ".unfold("})
    CHECK_MESSAGE(all.find(part) != std::string::npos, std::string(part));
}

TEST_CASE("a failing program is reduced to the statements that fail") {
  const auto uses_dropout = [](const RandomProgram& program) {
    try {
      build(program, c10::kCPU);
    } catch (const std::exception&) {
      return false;
    }
    return program.text().find("torch.dropout(") != std::string::npos;
  };
  int found = 0;
  for (uint64_t seed = 1; found < 3; ++seed) {
    const RandomProgram program = random_program(seed);
    if (!uses_dropout(program)) continue;
    ++found;
    const RandomProgram reduced = reduce(program, uses_dropout);
    CAPTURE(reduced.text());
    CHECK(uses_dropout(reduced));
    size_t lines = 0;
    for (const auto& function : reduced.functions) lines += function.size();
    CHECK(lines <= 6);
  }
}

}  // namespace
}  // namespace memtune::tests::conformance_random_test
