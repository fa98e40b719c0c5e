// Each system call fails once or permanently, in every way that a disk can. The result must be correct bytes or a typed
// error that names the disk. Hangs, wrong bytes and remains are not allowed.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "tests/disk/support.h"
#include "tests/support/samples.h"

using namespace memtune;
using namespace memtune::disk;
using test::AlignedMemory;
using test::Fault;
using test::Stage;
using test::Watchdog;

namespace {

constexpr int64_t kPage = kAlignment;

// "DiskFull: text", or "" if nothing was thrown.
template <class Call>
std::string thrown(Call call) {
  try {
    call();
    return "";
  } catch (const DiskFullError& error) {
    return std::string("DiskFull: ") + error.what();
  } catch (const DiskOrFileSystemError& error) {
    return std::string("DiskOrFileSystemError: ") + error.what();
  } catch (const DiskDataCorruptionError& error) {
    return std::string("CorruptBlock: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
}

// Blocks of one to six pages, and their memory.
struct Load {
  explicit Load(ScratchBlockStore& of) : store(of) {
    for (int64_t pages = 1; pages <= 6; ++pages) {
      out.push_back(std::make_unique<AlignedMemory>(pages * kPage));
      in.push_back(std::make_unique<AlignedMemory>(pages * kPage));
      test::fill(out.back()->data(), pages * kPage, static_cast<uint64_t>(pages));
    }
  }
  void allocate() {
    for (size_t i = 0; i < out.size(); ++i) blocks.push_back(store.allocate(bytes(i)));
  }
  // Memory may be freed only after all transfers.
  ~Load() {
    for (const auto& request : requests) thrown([&] { request->wait(); });
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void write() {
    for (size_t i = 0; i < out.size(); ++i) requests.push_back(store.write(blocks[i], out[i]->data()));
    for (const auto& request : requests) request->wait();
  }
  void read() {
    for (size_t i = 0; i < out.size(); ++i) requests.push_back(store.read(blocks[i], in[i]->data()));
    for (const auto& request : requests) request->wait();
    for (size_t i = 0; i < out.size(); ++i)
      right &= std::memcmp(in[i]->data(), out[i]->data(), static_cast<size_t>(bytes(i))) == 0;
  }
  static int64_t bytes(size_t i) { return static_cast<int64_t>(i + 1) * kPage; }

  ScratchBlockStore& store;
  std::vector<std::unique_ptr<AlignedMemory>> out, in;
  std::vector<ScratchFileBlockHandle> blocks;
  std::vector<RequestPtr> requests;
  bool right = true;
};

std::string kind_of(const std::string& error) { return error.substr(0, error.find(':')); }

// Every later call on a failed store must throw the first error. Several transfers in flight may fail.
void check_afterwards(ScratchBlockStore& store, const Load& load, const std::string& request) {
  AlignedMemory data(kPage);
  const std::string error = thrown([&] { store.allocate(1); });
  CHECK(kind_of(error) == kind_of(request));
  CHECK(thrown([&] { store.reserve(1); }) == error);
  CHECK(thrown([&] { store.write(load.blocks[0], data.data()); }) == error);
  CHECK(thrown([&] { store.read(load.blocks[0], data.data()); }) == error);
}

// The whole life of a store. Returns the error that ended it, or "".
std::string live(Stage& stage) {
  std::optional<Load> load;
  const std::string opening = thrown([&] {
    stage.open().reserve(21 * kPage);
    load.emplace(*stage.store).allocate();
  });
  if (!opening.empty()) return stage.store.reset(), opening;
  std::string error = thrown([&] { load->write(); });
  if (error.empty()) error = thrown([&] { load->read(); });
  if (!error.empty()) check_afterwards(*stage.store, *load, error);
  CHECK(load->right);
  load->blocks.clear();
  if (error.empty()) CHECK(stage.store->used_bytes() == 0);
  const auto used = [&] { return stage.store->used_bytes(); };
  while (used() > 0) std::this_thread::yield();  // after a failure, requests may still run
  stage.store.reset();
  return error;
}

struct Case {
  const char* name;
  Fault::Kind kind;
  int error;
};

constexpr Case kCases[] = {
    {"ENOSPC", Fault::Kind::failed, ENOSPC},
    {"EIO", Fault::Kind::failed, EIO},
    {"EINTR", Fault::Kind::failed, EINTR},
    {"EAGAIN", Fault::Kind::failed, EAGAIN},
    {"EDQUOT", Fault::Kind::failed, EDQUOT},
    {"not begun: EIO", Fault::Kind::refused, EIO},
    {"not begun: EAGAIN", Fault::Kind::refused, EAGAIN},
    {"short by half", Fault::Kind::half, 0},
    {"short by all", Fault::Kind::nothing, 0},
    {"flipped", Fault::Kind::flipped, 0},
    {"short by half and flipped", Fault::Kind::half_flipped, 0},
};

bool typed(const std::string& error) {
  return error.starts_with("DiskFull: ") || error.starts_with("DiskOrFileSystemError: ") ||
         error.starts_with("CorruptBlock: ");
}

// Moves the fault from the first call to the last. Returns the number of errors.
int walk(IoBackend backend, const Case& fault, bool for_ever, bool named) {
  int errors = 0;
  for (int at = 1;; ++at) {
    CAPTURE(at);
    const Watchdog watchdog(std::string(fault.name) + (for_ever ? " from call " : " at call ") + std::to_string(at));
    Stage stage(backend);
    stage.settings.depth = 2;
    if (named) stage.disk.on_open = [](int flags) { return test::unnamed(flags) ? -EOPNOTSUPP : 0; };
    const size_t descriptors = test::entries("/proc/self/fd");
    stage.disk.arm({fault.kind, fault.error, at, for_ever});
    const std::string error = live(stage);
    CAPTURE(error);
    CHECK(test::entries("/proc/self/fd") == descriptors);
    if (stage.disk.calls() < at) {
      CHECK(error == "");
      return errors;
    }
    if (!error.empty()) CHECK(typed(error));
    if (!error.empty()) CHECK(error.find(stage.folder.path.string()) != std::string::npos);
    errors += error.empty() ? 0 : 1;
    if (at > 1000) FAIL("the walk has no end");
  }
}

}  // namespace

TEST_CASE("every call fails in every way once and permanently") {
  int one = 0;
  for (const IoBackend backend : test::backends()) {
    for (const Case& fault : kCases) {
      for (const bool for_ever : {false, true}) {
        for (const bool named : {false, true}) {
          if (!tests::is_sampled(one++)) continue;
          CAPTURE(test::name_of(backend));
          CAPTURE(std::string(fault.name));
          CAPTURE(for_ever);
          const int errors = walk(backend, fault, for_ever, named);
          const bool passes = fault.error == EINTR || fault.error == EAGAIN || fault.kind == Fault::Kind::half ||
                              fault.kind == Fault::Kind::nothing;
          // A transient fault must not cause an error. A permanent one always must.
          if (for_ever) CHECK(errors > 5);
          if (!for_ever && passes && fault.error != EAGAIN) CHECK(errors == 0);
        }
      }
    }
  }
}

TEST_CASE("a permanent fault has the error type of its cause") {
  struct Expected {
    Fault fault;
    const char* writing;
    const char* reading;
  };
  const Expected expected[] = {
      {{Fault::Kind::failed, ENOSPC, 1, true}, "DiskFull", "DiskFull"},
      {{Fault::Kind::failed, EDQUOT, 1, true}, "DiskFull", "DiskFull"},
      {{Fault::Kind::failed, EIO, 1, true}, "DiskOrFileSystemError", "DiskOrFileSystemError"},
      {{Fault::Kind::failed, EIO, 1, false}, "DiskOrFileSystemError", ""},  // reads are retried once
      {{Fault::Kind::flipped, 0, 1, true}, "", "CorruptBlock"},
      {{Fault::Kind::flipped, 0, 1, false}, "", ""},
      {{Fault::Kind::half, 0, 1, false}, "", ""},
      {{Fault::Kind::half_flipped, 0, 6, false}, "", ""},  // read again from the start
      {{Fault::Kind::half, 0, 1, true}, "DiskOrFileSystemError", "DiskOrFileSystemError"},
      {{Fault::Kind::nothing, 0, 1, true}, "DiskOrFileSystemError", "DiskOrFileSystemError"},
      {{Fault::Kind::failed, EINTR, 1, true}, "DiskOrFileSystemError", "DiskOrFileSystemError"},
  };
  for (const IoBackend backend : test::backends()) {
    for (const auto& [failing, writing, reading] : expected) {
      const Fault& fault = failing;  // captures take no structured binding
      for (const bool in_write : {true, false}) {
        CAPTURE(static_cast<int>(fault.kind));
        CAPTURE(fault.error);
        CAPTURE(in_write);
        const Watchdog watchdog("a typed error");
        Stage stage(backend);
        Load load(stage.open());
        load.allocate();
        if (!in_write) load.write();
        stage.disk.arm(fault);
        const std::string error = in_write ? thrown([&] { load.write(); }) : thrown([&] { load.read(); });
        CHECK(kind_of(error) == (in_write ? writing : reading));
        CHECK(load.right);
      }
    }
  }
}

TEST_CASE("error messages name the operation and its place and size and the remedy") {
  Stage stage;
  stage.settings.depth = 1;
  Load load(stage.open());
  load.allocate();
  stage.disk.on_status = [](struct statfs& status) {
    status.f_bsize = 4096;
    status.f_bavail = 256;
  };
  stage.disk.arm({Fault::Kind::failed, ENOSPC, 2});
  const std::string folder = "the scratch file in '" + stage.folder.path.string() + "': ";
  CHECK(thrown([&] { load.write(); }) == "DiskFull: " + folder +
                                             "writing 8 KiB at offset 4096: No space left on device (1 MiB free); free "
                                             "some, name a larger disk with --scratch, or lower --disk-budget");
}

TEST_CASE("bytes that changed on the disk are detected and the block is named") {
  Stage stage;
  stage.settings.depth = 1;
  Load load(stage.open());
  load.allocate();
  stage.disk.arm({Fault::Kind::flipped, 0, 3});
  load.write();
  CHECK(thrown([&] { load.read(); }) ==
        "CorruptBlock: the scratch file in '" + stage.folder.path.string() +
            "': 12 KiB at offset 12288 came back changed, twice; the disk or this machine's memory damages data: name "
            "another disk with --scratch");
}

TEST_CASE("10000 flipped bits are all detected and a second read repairs errors of the transfer") {
  Stage stage;
  ScratchBlockStore& store = stage.open();
  constexpr int64_t kBytes = 1000;  // the flipped bits are in these bytes
  AlignedMemory out(kBytes), in(kBytes);
  test::fill(out.data(), kBytes, 1);
  const ScratchFileBlockHandle block = store.allocate(kBytes);
  store.write(block, out.data())->wait();
  int wrong = 0;
  for (int i = 0; i < 10'000; ++i) {
    stage.disk.arm({Fault::Kind::flipped, 0, 1});
    store.read(block, in.data())->wait();
    wrong += std::memcmp(in.data(), out.data(), kBytes) == 0 ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a block that was overwritten by another one is detected") {
  Stage stage;
  ScratchBlockStore& store = stage.open();
  AlignedMemory out(kPage), in(kPage);
  std::vector<ScratchFileBlockHandle> blocks;
  for (int i = 0; i < 2; ++i) blocks.push_back(store.allocate(kPage));
  test::fill(out.data(), kPage, 1);
  store.write(blocks[0], out.data())->wait();
  test::fill(out.data(), kPage, 2);
  stage.disk.misdirect = true;  // to offset 0
  store.write(blocks[1], out.data())->wait();
  stage.disk.misdirect = false;
  CHECK_THROWS_AS(store.read(blocks[0], in.data())->wait(), DiskDataCorruptionError);
}

TEST_CASE("requests in the queue fail at once with the first error") {
  for (const Fault::Kind kind : {Fault::Kind::failed, Fault::Kind::refused}) {
    const Watchdog watchdog("a queue behind a failure");
    Stage stage;
    stage.settings.depth = 1;
    ScratchBlockStore& store = stage.open();
    AlignedMemory data(kPage);
    std::vector<ScratchFileBlockHandle> blocks;
    for (int i = 0; i < 50; ++i) blocks.push_back(store.allocate(kPage));
    stage.disk.arm({kind, EIO, 3, true});
    std::vector<RequestPtr> requests;
    thrown([&] {
      for (const ScratchFileBlockHandle& block : blocks) requests.push_back(store.write(block, data.data()));
    });
    int failed = 0;
    std::string first;
    for (const RequestPtr& request : requests) {
      const std::string error = thrown([&] { request->wait(); });
      if (error.empty()) continue;
      ++failed;
      if (first.empty()) first = error;
      CHECK(error == first);
    }
    CHECK(failed == static_cast<int>(requests.size()) - 2);
    CHECK(stage.disk.calls() == 3);  // no more calls after the failure
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers intercept pthread_create themselves

namespace {
std::atomic<int> threads_left = -1;  // negative: no limit
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left == 0) return EAGAIN;
  if (threads_left > 0) --threads_left;
  return create(thread, attributes, run, argument);
}

TEST_CASE("a thread that cannot be started is an error and threads started before end") {
  int refused = 0;
  for (int threads = 0;; ++threads, ++refused) {
    CAPTURE(threads);
    const Watchdog watchdog("only so many threads: " + std::to_string(threads));
    Stage stage(IoBackend::threads);
    stage.settings.depth = 2;
    threads_left = threads;
    const std::string error = thrown([&] { stage.open(); });
    threads_left = -1;
    if (error.empty()) break;
    CHECK(error.starts_with("another error: "));
  }
  CHECK(refused >= 4);
}

#endif
