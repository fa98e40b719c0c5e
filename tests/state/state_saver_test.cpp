// Why: a state is copied during training, from memory that training is about to change. A saved state must be the state
// of one step, in any order of copies, updates and transfers. Training must not wait longer than necessary. A failing
// disk or a lack of memory must not end it.
#include "core/engine/state/state_saver.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "core/base/vocabulary.h"
#include "tests/state/support.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/queue_device.h"
#include "tests/support/run_program.h"
#include "tests/support/samples.h"
namespace memtune::state::state_saver_test {
namespace {

using device::StreamKind;

// Makes a copy when its result is awaited, or at any earlier moment.
class LateDevice final : public tests::QueueDevice {
 public:
  explicit LateDevice(tests::Random* random) : QueueDevice(Compute::caller, random) {}

  void copy(void* to, const void* from, int64_t bytes, device::CopyDirection direction, StreamKind stream) override {
    ++copies;
    QueueDevice::copy(to, from, bytes, direction, stream);
  }
  std::unique_ptr<device::HostBuffer> allocate_host(int64_t bytes, bool pinned) override {
    if (bytes > most_host_bytes || (pinned && !gives_pinned)) throw OutOfHostMemoryError("no more");
    ++slabs;
    return QueueDevice::allocate_host(bytes, pinned);
  }

  int copies = 0, slabs = 0;
  int64_t most_host_bytes = INT64_MAX;
  bool gives_pinned = true;
};

// Training without arithmetic: weights and optimizer states, statistics that each forward changes, and a frozen weight.
class Training {
 public:
  explicit Training(size_t weights) {
    for (size_t i = 0; i < weights; ++i)
      for (const char* kind : {"weight", "exp_avg"}) bytes_[std::string(kind) + std::to_string(i)].resize(700 + 13 * i);
    bytes_["statistics"].resize(300);
    bytes_["frozen"].assign(900, 'f');
  }

  std::vector<TensorToSave> parts() {
    std::vector<TensorToSave> parts;
    for (auto& [name, bytes] : bytes_) {
      TensorToSave part;
      part.spec = {name, safetensors::Dtype::u8, {static_cast<int64_t>(bytes.size())}};
      part.data = bytes.data();
      part.memory = bytes.data();
      part.on_device = true;
      part.changes_in_forward = name == "statistics";
      part.is_unchanged = [this, key = name, version = versions_[name]] { return versions_[key] == version; };
      parts.push_back(part);
    }
    loss_ = "loss of step " + std::to_string(step_);
    TensorToSave loss;
    loss.spec = {"loss", safetensors::Dtype::u8, {static_cast<int64_t>(loss_.size())}};
    loss.data = loss_.data();
    parts.push_back(loss);
    return parts;
  }

  void forward() { change("statistics"); }
  void update(StateSaver& saver) {
    ++step_;
    std::map<size_t, std::vector<std::string>> groups;
    for (const auto& [name, bytes] : bytes_)
      if (name != "statistics" && name != "frozen") groups[saver.turn(bytes.data())].push_back(name);
    for (const auto& [turn, names] : groups) {
      saver.await(turn);
      for (const std::string& name : names) change(name);
    }
  }
  void step(StateSaver& saver) {
    forward();
    saver.begin_backward();
    update(saver);
    saver.look(false);
  }
  void change(const std::string& name) {
    ++versions_[name];
    for (char& byte : bytes_[name]) byte = static_cast<char>(byte * 5 + step_ + 1);
  }

  int64_t steps() const { return step_; }
  test::Contents contents() const {
    test::Contents contents(bytes_.begin(), bytes_.end());
    contents["loss"] = "loss of step " + std::to_string(step_);
    return contents;
  }

 private:
  std::map<std::string, std::string> bytes_;
  std::map<std::string, int> versions_;
  std::string loss_;
  int64_t step_ = 0;
};

// A run that compares its saves with the expected states.
struct Run {
  explicit Run(const StateSaveModeAndRetentionSettings& settings, uint64_t seed = 1)
      : random(seed),
        device(seed % 2 == 0 ? &random : nullptr),
        saver(device, folder, settings, [this](const auto& save) { ended.push_back(save); }) {
    folder.make();
    // The writer may be late, too.
    disk.on_open = [this](int) {
      std::this_thread::sleep_for(lateness.load());
      return 0;
    };
  }
  void prepare(int64_t budget = INT64_MAX) { saver.prepare(bytes_of(training.parts()), budget); }
  void save() {
    expected[training.steps()] = training.contents();
    saver.save(training.steps(), training.parts());
  }
  void check_saved() {
    for (const int64_t step : folder.steps()) CHECK(test::load(folder, step).contents == expected.at(step));
  }

  test::ScratchFolder scratch;
  test::FaultyDisk disk;
  SavedStatesFolder folder{scratch.path, disk};
  std::atomic<std::chrono::microseconds> lateness{std::chrono::microseconds(0)};
  tests::Random random;
  LateDevice device;
  Training training{5};
  std::map<int64_t, test::Contents> expected;
  std::vector<result::SingleStateSaveRecord> ended;
  StateSaver saver;
};

StateSaveModeAndRetentionSettings settings(const std::string& how, int64_t keep_last = 0,
                                           bool activations_first = false) {
  return {how, keep_last, activations_first};
}

TEST_CASE("a save has the state of its step in any order of copies and updates and transfers") {
  for (int seed = 0; seed < tests::samples(60); ++seed)
    for (const std::string& how : kSaveModes) {
      CAPTURE(seed);
      CAPTURE(how);
      tests::Random random(static_cast<uint64_t>(seed));
      Run run(settings(how, 0, random.one_in(2)), static_cast<uint64_t>(seed));
      run.lateness = std::chrono::microseconds(random.of({0, 0, 300, 2000}));
      run.prepare(how == "sync" || random.one_in(2) ? INT64_MAX : int64_t{2} << 20);
      for (int i = 0; i < 6; ++i) {
        run.training.step(run.saver);
        if (random.one_in(2)) run.save();
      }
      run.saver.look(true);
      CHECK(run.ended.size() == run.expected.size());
      for (const result::SingleStateSaveRecord& save : run.ended) CHECK(save.error == "");
      CHECK(run.folder.steps().size() == run.expected.size());
      run.check_saved();
    }
}

TEST_CASE("training continues during overlapped saves until no image is free") {
  Run run(settings("overlapped"));
  int images = 2;
  SUBCASE("room for two") { run.prepare(); }
  SUBCASE("room for one") {
    run.prepare(int64_t{2} << 20);
    images = 1;
  }
  CHECK(run.device.slabs == 1);
  run.disk.on_submit = [](const auto&) { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  for (int i = 0; i < 4; ++i) {
    run.save();
    CHECK(run.ended.size() == static_cast<size_t>(std::max(0, i + 1 - images)));
    run.training.step(run.saver);
  }
  CHECK(run.device.slabs == images);
  run.saver.look(true);
  CHECK(run.ended.size() == 4);
  for (size_t i = 0; i + 1 < run.ended.size(); ++i) CHECK(run.ended[i].step < run.ended[i + 1].step);
  run.check_saved();
}

TEST_CASE("copies of a save wait for backward if forward offloads activations") {
  for (const bool activations_first : {false, true}) {
    Run run(settings("overlapped", 0, activations_first));
    run.prepare();
    run.training.step(run.saver);
    run.save();
    const int statistics = 1, others = 5 * 2 + 1;
    CHECK(run.device.copies == (activations_first ? statistics : statistics + others));
    run.training.step(run.saver);
    CHECK(run.device.copies == statistics + others);
    run.saver.look(true);
    run.check_saved();
  }
}

TEST_CASE("a save fails if the model writes to its own weights in a forward") {
  Run run(settings("overlapped"));
  run.prepare();
  run.save();
  run.training.change("weight2");
  run.training.step(run.saver);
  run.saver.look(true);
  REQUIRE(run.ended.size() == 1);
  CHECK(run.ended[0].error.find("the model writes to 'weight2' itself") == 0);
  CHECK(run.folder.steps().empty());
  run.save();  // the next save is not affected
  run.training.step(run.saver);
  run.saver.look(true);
  CHECK(run.ended.back().error == "");
  run.check_saved();
}

TEST_CASE("a run that ends in a forward does not publish the save that just began and does not hang") {
  for (const bool activations_first : {false, true}) {
    test::ScratchFolder scratch;
    SavedStatesFolder folder(scratch.path);
    folder.make();
    LateDevice device(nullptr);
    Training training(3);
    {
      StateSaver saver(device, folder, settings("overlapped", 0, activations_first), [](const auto&) {});
      saver.prepare(bytes_of(training.parts()), INT64_MAX);
      saver.save(0, training.parts());
    }
    CHECK(folder.steps().empty());
  }
}

TEST_CASE("a save that the disk rejects is reported and the next one works") {
  for (const std::string& how : kSaveModes) {
    CAPTURE(how);
    Run run(settings(how));
    run.prepare();
    run.disk.arm({test::Fault::Kind::refused, ENOSPC, 12, true});
    run.save();
    run.training.step(run.saver);
    run.saver.look(true);
    run.disk.arm({});
    run.save();
    run.saver.look(true);
    REQUIRE(run.ended.size() == 2);
    CHECK(run.ended[0].error.find("No space left") != std::string::npos);
    CHECK(run.ended[1].error == "");
    CHECK(run.folder.steps() == std::vector<int64_t>{1});
    run.check_saved();
  }
}

TEST_CASE("a failed blocking save ends only after its last copy") {
  int failed = 0;
  for (int at = 1; at <= 24; ++at) {
    CAPTURE(at);
    Run run(settings("sync"));
    run.prepare();
    auto bytes = std::make_shared<std::string>(40 << 20, 'x');
    const std::weak_ptr<std::string> watched = bytes;
    std::vector<TensorToSave> parts(1);
    parts[0] = {{"w", safetensors::Dtype::u8, {40 << 20}}, bytes->data(), true, false, bytes->data(), bytes, {}};
    bytes.reset();
    run.disk.arm({test::Fault::Kind::failed, EIO, at, false});
    run.saver.save(1, std::move(parts));
    run.saver.look(true);
    failed += run.ended.at(0).error.empty() ? 0 : 1;
    CHECK(watched.expired());
    CHECK(run.device.done(StreamKind::out));
  }
  CHECK(failed > 3);
}

TEST_CASE("a copy made only for the snapshot is freed once it is copied to the host") {
  Run run(settings("overlapped", 0, true));
  run.prepare();
  auto copy = std::make_shared<std::string>(5000, 'c');
  const std::weak_ptr<std::string> watched = copy;
  std::vector<TensorToSave> parts(1);
  parts[0] = {{"c", safetensors::Dtype::u8, {5000}}, copy->data(), true, true, copy->data(), copy, {}};
  copy.reset();
  run.saver.save(1, std::move(parts));
  CHECK(watched.expired());
  run.saver.look(true);
  CHECK(test::load(run.folder).contents.at("c") == std::string(5000, 'c'));
}

TEST_CASE("too little host memory is reported at the start and pageable memory replaces pinned memory") {
  Run short_of(settings("async"));
  CHECK_THROWS_WITH_AS(short_of.prepare(1 << 20), doctest::Contains("of host memory, and there are 1 MiB for it"),
                       UsageError);
  Run waiting(settings("sync"));
  CHECK_THROWS_WITH_AS(waiting.prepare(15 << 20),
                       doctest::Contains("a save takes 16 MiB of host memory, and there are 15 MiB"), UsageError);
  waiting.prepare(20 << 20);
  CHECK(waiting.saver.host_bytes() <= 20 << 20);
  Run pageable(settings("overlapped"));
  pageable.device.gives_pinned = false;
  pageable.prepare();
  pageable.training.step(pageable.saver);
  pageable.save();
  pageable.training.step(pageable.saver);
  pageable.saver.look(true);
  REQUIRE(pageable.ended.size() == 1);
  pageable.check_saved();
}

TEST_CASE("a state that outgrew its image gets a larger one or the save fails if memory is short") {
  for (const bool refused : {false, true}) {
    Run run(settings("overlapped"));
    run.saver.prepare(0, refused ? 3 << 20 : INT64_MAX);
    std::string grown(3 << 20, 'g');
    std::vector<TensorToSave> parts(1);
    parts[0] = {{"grown", safetensors::Dtype::u8, {static_cast<int64_t>(grown.size())}},
                grown.data(),
                true,
                false,
                grown.data(),
                {},
                {}};
    run.saver.save(1, parts);
    run.saver.look(true);
    REQUIRE(run.ended.size() == 1);
    CHECK(run.ended[0].error == (refused ? "the state has grown to 3 MiB, for which host memory has no room" : ""));
    if (!refused) CHECK(test::load(run.folder).contents.at("grown") == grown);
  }
}

}  // namespace
}  // namespace memtune::state::state_saver_test
