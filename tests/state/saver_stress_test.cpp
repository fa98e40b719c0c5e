// Why: training, the device's copy stream, the saving thread and the I/O threads share one image. Their order is
// nondeterministic. Under TSan a race shows even if the bytes are right.
#include <array>
#include <cerrno>
#include <map>

#include "core/base/vocabulary.h"
#include "core/engine/state/state_saver.h"
#include "tests/state/support.h"
#include "tests/support/cpu_emulated_device.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/random.h"
#include "tests/support/run_program.h"
#include "tests/support/samples.h"
namespace memtune::state::saver_stress_test {
namespace {

// Weights whose values encode their step.
class Training {
 public:
  explicit Training(StateSaver& saver) : saver_(saver) {
    for (size_t i = 0; i < kWeights; ++i) change(i, 0);
  }

  std::vector<TensorToSave> parts() {
    std::vector<TensorToSave> parts;
    for (size_t i = 0; i < weights_.size(); ++i) {
      TensorToSave part;
      part.spec = {"weight" + std::to_string(i), safetensors::Dtype::i64, {kNumbers}};
      part.data = reinterpret_cast<const char*>(weights_[i].data());
      part.memory = weights_[i].data();
      part.on_device = true;
      part.changes_in_forward = i == 0;
      part.is_unchanged = [this, i, step = steps_[i]] { return steps_[i] == step; };
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // The forward changes the first weight. The other weights wait for their turns, in ascending order.
  void step(int64_t step) {
    change(0, step);
    saver_.begin_backward();
    std::multimap<size_t, size_t> turns;
    for (size_t i = 1; i < weights_.size(); ++i) turns.emplace(saver_.turn(weights_[i].data()), i);
    for (const auto& [turn, i] : turns) {
      saver_.await(turn);
      change(i, step);
    }
    saver_.look(false);
  }

  static test::Contents contents(int64_t step) {
    test::Contents contents;
    for (size_t i = 0; i < kWeights; ++i) {
      const std::vector<int64_t> numbers(kNumbers, number(i, step));
      contents["weight" + std::to_string(i)].assign(reinterpret_cast<const char*>(numbers.data()), kNumbers * 8);
    }
    return contents;
  }

 private:
  static constexpr size_t kWeights = 8;
  static constexpr int64_t kNumbers = 50'000;

  static int64_t number(size_t weight, int64_t step) { return step * 100 + static_cast<int64_t>(weight); }
  void change(size_t i, int64_t step) {
    weights_[i].assign(kNumbers, number(i, step));
    steps_[i] = step;
  }

  StateSaver& saver_;
  std::array<std::vector<int64_t>, kWeights> weights_;
  std::array<int64_t, kWeights> steps_ = {};
};

struct Ended {
  int saves = 0, failed = 0;
};

// 30 steps with some saves, of which some hit a full disk.
Ended train(const std::string& how, uint64_t seed) {
  tests::Random random(seed);
  test::ScratchFolder scratch;
  test::FaultyDisk disk;
  SavedStatesFolder folder(scratch.path, disk);
  folder.make();
  device::CpuEmulatedDevice device(tests::no_tensors());
  Ended ended;
  int64_t saved = 0;
  const auto tell = [&](const result::SingleStateSaveRecord& save) {
    ++ended.saves;
    if (save.error.empty())
      saved = save.step;
    else
      ++ended.failed;
  };
  StateSaver saver(device, folder, {how, 2, random.one_in(2)}, tell);
  Training training(saver);
  saver.prepare(bytes_of(training.parts()), random.one_in(2) || how == "sync" ? INT64_MAX : int64_t{7} << 20);
  int begun = 0;
  for (int64_t step = 1; step <= 30; ++step) {
    training.step(step);
    if (random.one_in(3)) disk.arm({test::Fault::Kind::refused, ENOSPC, 1 + random.below(40)});
    if (random.one_in(2)) saver.save(step, training.parts()), ++begun;
  }
  saver.look(true);
  CHECK(ended.saves == begun);
  disk.arm({});
  for (const int64_t step : folder.steps()) CHECK(test::load(folder, step).contents == Training::contents(step));
  if (saved > 0) CHECK(folder.steps().back() >= saved);
  return ended;
}

TEST_CASE("each state saved during training is the state of one step") {
  for (const std::string& how : kSaveModes) {
    CAPTURE(how);
    Ended all;
    for (uint64_t seed = 0; seed < static_cast<uint64_t>(tests::samples(8)); ++seed) {
      CAPTURE(seed);
      const Ended ended = train(how, seed);
      all.saves += ended.saves, all.failed += ended.failed;
    }
    CHECK(all.failed > 0);
    CHECK(all.saves > 2 * all.failed);
  }
}

}  // namespace
}  // namespace memtune::state::saver_stress_test
