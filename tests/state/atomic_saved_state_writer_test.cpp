// Why: other threads read a state's bytes from the caller's memory during training, in several transfers at a time. The
// published bytes must be those of the agreed moment. The writer must not touch the memory once the caller may free it.
#include "core/engine/state/atomic_saved_state_writer.h"

#include <atomic>
#include <filesystem>
#include <future>

#include "tests/state/support.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/gate.h"
#include "tests/support/run_program.h"
#include "tests/support/samples.h"
#include "tests/support/watchdog.h"
namespace memtune::state::state_writer_test {
namespace {

using disk::kAlignment;
using test::Fault;
using test::Gate;
using test::Watchdog;

constexpr int64_t kLarge = 20'000'007;

// A state folder on a disk that can fail on request, and the bytes of one state.
struct Stage {
  test::ScratchFolder scratch;
  test::FaultyDisk disk;
  SavedStatesFolder folder{scratch.path, disk};
  std::vector<safetensors::TensorNameDtypeAndShape> specs;
  test::Contents contents;
  std::optional<test::StateImage> image;
  std::optional<AtomicSavedStateWriter> writer;

  explicit Stage(int64_t bytes = 10 * kAlignment - 9) {
    specs = {{"a", safetensors::Dtype::u8, {bytes - 7}}, {"b", safetensors::Dtype::u8, {7}}};
    std::mt19937_64 random(3);
    for (const safetensors::TensorNameDtypeAndShape& spec : specs)
      for (int64_t i = 0; i < spec.shape[0]; ++i) contents[spec.name] += static_cast<char>(random());
    image.emplace(specs, contents);
    folder.make();
    writer.emplace(folder, 1, specs);
  }
  bool published() const { return !folder.steps().empty(); }
  void check_published() {
    writer->publish();
    CHECK(test::load(folder).contents == contents);
  }
  void check_nothing_left() {
    writer.reset();
    CHECK(folder.steps().empty());
    CHECK(test::entries(folder.root()) == 0);
  }
};

TEST_CASE("bytes may come in portions of any number of whole pages") {
  int one = 0;
  for (const int64_t portion : {kAlignment * 3001, kAlignment * 100, kLarge}) {
    if (!tests::is_sampled(one++)) continue;
    CAPTURE(portion);
    Stage stage(kLarge);
    stage.image->write(*stage.writer, portion);
    stage.check_published();
    CHECK(stage.writer->bytes() == static_cast<int64_t>(std::filesystem::file_size(stage.folder.path(1) / kDataFile)));
  }
}

TEST_CASE("missing and excess bytes and unaligned portions and a second save of a step are rejected") {
  Stage stage;
  char* data = stage.image->data();
  CHECK_THROWS_WITH(stage.writer->publish(), "a state lacks 40951 bytes");
  CHECK_THROWS_WITH(stage.writer->write(data, 40952), "a state is given 1 bytes too many");
  CHECK_THROWS_AS(stage.writer->write(data, 100), Error);
  CHECK_THROWS_AS(stage.writer->write(data + 1, kAlignment), Error);
  stage.writer->write(data, kAlignment);
  CHECK_THROWS_WITH(stage.writer->publish(), "a state lacks 36855 bytes");
  stage.writer->write(data + kAlignment, 40951 - kAlignment);
  stage.check_published();
  CHECK_THROWS_AS(AtomicSavedStateWriter(stage.folder, 1, stage.specs), IoError);
  CHECK(test::load(stage.folder).contents == stage.contents);
  const std::vector<safetensors::TensorNameDtypeAndShape> twice{stage.specs[0], stage.specs[0]};
  CHECK_THROWS_AS(AtomicSavedStateWriter(stage.folder, 2, twice), UsageError);
  CHECK(test::entries(stage.folder.root()) == 2);
}

TEST_CASE("a state without a byte of data is valid") {
  test::ScratchFolder scratch;
  SavedStatesFolder folder(scratch.path);
  folder.make();
  const std::vector<safetensors::TensorNameDtypeAndShape> specs{{"none", safetensors::Dtype::f32, {0, 3}}};
  AtomicSavedStateWriter writer(folder, 1, specs);
  const disk::AlignedBuffer data = disk::aligned_bytes(1);
  writer.write(data.get(), 0)->wait();
  writer.publish();
  CHECK(test::load(folder).contents == test::Contents{{"none", ""}});
}

TEST_CASE("a portion is read after `before` returns and the caller may change it once the request is done") {
  const Watchdog watchdog("a portion behind a gate");
  Stage stage(kLarge);
  const std::string whole(stage.image->data(), kLarge);
  std::memset(stage.image->data(), 0, kLarge);
  Gate gate;
  std::atomic<int> calls = 0;
  const disk::RequestPtr request = stage.writer->write(stage.image->data(), kLarge, [&] {
    gate.pass();
    whole.copy(stage.image->data(), kLarge);  // stands for the device's copy
    ++calls;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(request->done());
  gate.open();
  request->wait();
  CHECK(calls == 1);
  std::memset(stage.image->data(), 0, kLarge);  // training continues
  stage.check_published();
}

TEST_CASE("a request is done after its last transfer and publish waits for it") {
  const Watchdog watchdog("a transfer that takes long");
  Stage stage(kLarge);
  Gate gate;
  stage.disk.on_submit = [&](const disk::IoSubmission& transfer) {
    if (transfer.offset > 16'000'000) gate.pass();
  };
  const disk::RequestPtr request = stage.writer->write(stage.image->data(), kLarge);
  auto published = std::async(std::launch::async, [&] { stage.writer->publish(); });
  CHECK(published.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  CHECK_FALSE(request->done());
  CHECK_FALSE(stage.published());
  gate.open();
  published.get();
  CHECK(request->done());
  CHECK(test::load(stage.folder).contents == stage.contents);
}

TEST_CASE("an exception in `before` ends the save and skips later portions and leaves no files") {
  const Watchdog watchdog("a copy that fails");
  Stage stage;
  Gate gate;
  stage.writer->write(stage.image->data(), kAlignment, [&] {
    gate.pass();
    throw DeviceError("lost");
  });
  const disk::RequestPtr later =
      stage.writer->write(stage.image->data() + kAlignment, kAlignment, [] { FAIL_CHECK("asked for"); });
  gate.open();
  CHECK_THROWS_WITH_AS(later->wait(), "lost", DeviceError);
  CHECK_THROWS_AS(stage.writer->write(stage.image->data(), kAlignment), DeviceError);
  stage.check_nothing_left();
}

TEST_CASE("a save that fails midway ends quickly") {
  const Watchdog watchdog("a disk that fails");
  Stage stage(1000 * kAlignment);
  Gate gate;
  std::atomic<int> submits = 0;
  stage.disk.on_submit = [&](const disk::IoSubmission&) {
    ++submits;
    gate.pass();
  };
  stage.disk.arm({Fault::Kind::failed, EIO, 2});
  stage.image->write(*stage.writer, kAlignment);
  gate.open();
  CHECK_THROWS_WITH_AS(stage.writer->publish(), doctest::Contains("Input/output error"), IoError);
  CHECK(submits < 100);
  stage.check_nothing_left();
}

TEST_CASE("an abandoned save waits for transfers in flight and cancels the rest") {
  for (const bool in_before : {true, false}) {
    CAPTURE(in_before);
    const Watchdog watchdog("a save that is given up");
    Stage stage;
    Gate gate, entered;
    const auto hold = [&] {
      entered.open();
      gate.pass();
    };
    if (!in_before)
      stage.disk.on_submit = [&](const disk::IoSubmission& transfer) { transfer.offset > 0 ? hold() : void(); };
    const disk::RequestPtr running =
        stage.writer->write(stage.image->data(), kAlignment, in_before ? std::function<void()>(hold) : nullptr);
    const disk::RequestPtr waiting =
        stage.writer->write(stage.image->data() + kAlignment, kAlignment, [] { FAIL_CHECK("used after the end"); });
    entered.pass();
    auto ended = std::async(std::launch::async, [&] { stage.writer.reset(); });
    CHECK(ended.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
    gate.open();
    ended.get();
    CHECK(running->done());
    CHECK_THROWS_WITH(waiting->wait(), "the save was given up");
    stage.check_nothing_left();
  }
}

TEST_CASE("a full disk is reported when the save begins and no files are left") {
  Stage stage;
  stage.disk.on_status = [](struct statfs& status) { status.f_bavail = 1; };
  CHECK_THROWS_WITH_AS(AtomicSavedStateWriter(stage.folder, 2, stage.specs), doctest::Contains("(4 KiB free)"),
                       DiskFullError);
  stage.writer.reset();
  CHECK(test::entries(stage.folder.root()) == 0);
}

TEST_CASE("a state is written with direct I/O or through the page cache by io_uring or threads") {
  Stage stage;
  stage.writer.reset();
  stage.disk.on_alignment = [] { return kAlignment; };
  stage.disk.arm({Fault::Kind::refused, EINVAL, 1000});
  std::string how = AtomicSavedStateWriter(stage.folder, 2, stage.specs).description();
  CHECK((how.ends_with(", direct") || how.ends_with(", through the page cache")));
  stage.disk.on_alignment = [] { return 0; };
  stage.writer.emplace(stage.folder, 3, stage.specs);
  CHECK(stage.writer->description().ends_with(", through the page cache"));
  stage.image->write(*stage.writer, kAlignment);
  stage.check_published();
}

}  // namespace
}  // namespace memtune::state::state_writer_test
