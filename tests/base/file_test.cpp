// A sweep stores everything through these functions. A lost or partial file would lose hours of trials.
#include "core/base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/open_file.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/run_program.h"

namespace memtune::base_file_test {

using namespace memtune;
using memtune::test::entries;
using memtune::test::ScratchFolder;
namespace fs = std::filesystem;

namespace {

// Limits the size of this process's files while the object lives: writes fail as on a full disk.
struct FileSizeLimit {
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    handler = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
  }
  rlimit before{};
  sighandler_t handler;
};

// A child process that takes the lock, signals it, and waits to be killed.
pid_t start_holder(const fs::path& lock) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock held(lock);
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(0);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

}  // namespace

TEST_CASE("written content is read back even if empty or binary") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a";
  for (const std::string& content : {std::string(), std::string("text\n"), std::string("\0\xff\n\0", 4),
                                     std::string(4096, 'x'), std::string(1'000'003, 'y')}) {
    write_file(path, content);
    CHECK(read_file(path) == content);
  }
  CHECK(entries(folder.path) == 1);
}

TEST_CASE("a rewritten file keeps its permissions even through a link") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "file", link = folder.path / "link";
  write_file(path, "a");
  const auto mine = fs::perms::owner_read | fs::perms::owner_write, group = mine | fs::perms::group_write;
  fs::create_symlink("file", link);
  for (const auto perms : {mine, group}) {
    fs::permissions(path, perms);
    write_file(link, "b");
    CHECK(fs::is_symlink(link));
    CHECK(fs::status(path).permissions() == perms);
  }
}

TEST_CASE("files without a size are read to their end") { CHECK(read_file("/proc/self/status").starts_with("Name:")); }

TEST_CASE("make_folders creates all missing parents and returns whether it made the folder") {
  const ScratchFolder folder;
  CHECK(make_folders(folder.path / "a/b/c"));
  CHECK_FALSE(make_folders(folder.path / "a/b/c"));
  CHECK(make_folders(folder.path / "d/"));
  CHECK(fs::is_directory(folder.path / "d"));
  write_file(folder.path / "file", "");
  CHECK_THROWS_WITH_AS(make_folders(folder.path / "file/a"), doctest::Contains("Not a directory"), IoError);
}

TEST_CASE("remove_file removes a file or does nothing if there is none and rejects a folder") {
  const ScratchFolder folder;
  write_file(folder.path / "file", "");
  remove_file(folder.path / "file");
  CHECK_NOTHROW(remove_file(folder.path / "file"));
  CHECK(entries(folder.path) == 0);
  CHECK_THROWS_AS(remove_file(folder.path), IoError);
}

TEST_CASE("the error for a missing file has its name and the system's reason") {
  const ScratchFolder folder;
  const std::string missing = (folder.path / "no/file").string();
  CHECK_THROWS_WITH_AS(read_file(missing), ("cannot read '" + missing + "': No such file or directory").c_str(),
                       IoError);
  CHECK_THROWS_WITH_AS(append_file(missing, "x"),
                       ("cannot append to '" + missing + "': No such file or directory").c_str(), IoError);
  CHECK_THROWS_AS(write_file(missing, "x"), IoError);
  CHECK_THROWS_WITH_AS(read_file(folder.path), ("cannot read '" + folder.path.string() + "': Is a directory").c_str(),
                       IoError);
  CHECK_THROWS_WITH_AS(write_file(folder.path, "x"),
                       ("cannot write '" + folder.path.string() + "': Is a directory").c_str(), IoError);
}

TEST_CASE("a failed write keeps the old content and leaves no other file") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a";
  write_file(path, "old");
  {
    const FileSizeLimit full(1000);
    CHECK_THROWS_AS(write_file(path, std::string(5000, 'n')), IoError);
  }
  CHECK(read_file(path) == "old");
  CHECK(entries(folder.path) == 1);
}

TEST_CASE("a file beyond RLIMIT_FSIZE counts as a full disk and the error names the limit") {
  const ScratchFolder folder;
  const FileSizeLimit limit(4096);
  CHECK_THROWS_WITH_AS(write_file(folder.path / "a", std::string(8192, 'x')),
                       doctest::Contains("a file that this process writes may have 4 KiB (ulimit -f)"), DiskFullError);
}

TEST_CASE("a failed append removes its partial record") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "journal";
  append_file(path, "one\n");
  {
    const FileSizeLimit full(1000);
    CHECK_THROWS_AS(append_file(path, std::string(5000, 'n')), IoError);
  }
  append_file(path, "two\n");
  CHECK(read_file(path) == "one\ntwo\n");
}

TEST_CASE("readers see the old or the new content while writers replace it") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a";
  const std::string contents[] = {std::string(200'000, 'a'), std::string(300'000, 'b')};
  write_file(path, contents[0]);
  std::thread first([&] {
    for (int i = 0; i < 20; ++i) write_file(path, contents[0]);
  });
  std::thread second([&] {
    for (int i = 0; i < 20; ++i) write_file(path, contents[1]);
  });
  int parts = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_file(path);
    parts += seen != contents[0] && seen != contents[1];
  }
  first.join();
  second.join();
  CHECK(parts == 0);
  CHECK(entries(folder.path) == 1);
}

TEST_CASE("a write through a symbolic link replaces its target") {
  const ScratchFolder folder;
  write_file(folder.path / "real", "old");
  fs::create_symlink("real", folder.path / "link");
  write_file(folder.path / "link", "new");
  CHECK(fs::is_symlink(folder.path / "link"));
  CHECK(read_file(folder.path / "real") == "new");
}

TEST_CASE("a pipe is written to and not replaced") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::string seen;
  std::thread reader([&] { seen = memtune::test::slurp(path); });
  write_file(path, "through");
  reader.join();
  CHECK(seen == "through");
  CHECK(fs::is_fifo(path));
}

TEST_CASE("a pipe without a reader is an error and does not block") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(write_file(path, "x"), ("cannot write '" + path.string() + "': nothing reads from it").c_str(),
                       IoError);
}

TEST_CASE("pipes and devices and sockets are rejected by reads and appends and locks") {
  const ScratchFolder folder;
  const fs::path pipe = folder.path / "pipe", link = folder.path / "link", socket = folder.path / "socket";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::mknod(socket.c_str(), S_IFSOCK | 0600, 0) == 0);
  fs::create_symlink("/dev/zero", link);
  for (const auto& [path, kind] :
       {std::pair(pipe, "a pipe"), std::pair(link, "a device"), std::pair(socket, "a socket")}) {
    const std::string why = "': it is " + std::string(kind) + "; a regular file is needed";
    CHECK_THROWS_WITH_AS(read_file(path), ("cannot read '" + path.string() + why).c_str(), IoError);
    CHECK_THROWS_WITH_AS(RandomAccessFileReader{path}, ("cannot read '" + path.string() + why).c_str(), IoError);
    CHECK_THROWS_WITH_AS(append_file(path, "x"), ("cannot append to '" + path.string() + why).c_str(), IoError);
    CHECK_THROWS_WITH_AS(cut_file(path, 0), ("cannot cut '" + path.string() + why).c_str(), IoError);
    CHECK_THROWS_WITH_AS(FileLock{path}, ("cannot lock '" + path.string() + why).c_str(), IoError);
    CHECK_THROWS_WITH_AS(require_file("--plan", path),
                         ("--plan: " + path.string() + " is " + kind + "; a regular file is needed").c_str(),
                         UsageError);
  }
}

TEST_CASE("require_file reports a missing file and a folder with the option's name") {
  const ScratchFolder folder;
  const std::string place = folder.path.string();
  write_file(folder.path / "file", "x");
  fs::create_symlink("file", folder.path / "link");
  CHECK_NOTHROW(require_file("--plan", folder.path / "link"));
  CHECK_THROWS_WITH_AS(require_file("--plan", place + "/none"), ("--plan: no such file: " + place + "/none").c_str(),
                       UsageError);
  CHECK_THROWS_WITH_AS(require_file("--plan", place),
                       ("--plan: " + place + " is a folder; name the file in it").c_str(), UsageError);
}

TEST_CASE("a signal ends the wait for a file system that hangs") {
  const ScratchFolder folder;
  write_file(folder.path / "file", "x");
  memtune::test::FaultyDisk disk;
  disk.on_open = [](int) { return -EINTR; };
  CHECK_THROWS_WITH_AS(read_file(folder.path / "file", disk), doctest::Contains("a signal ended the wait for it"),
                       IoError);
  CHECK_THROWS_AS(write_file(folder.path / "file", "y", disk), IoError);
}

namespace {

// Records the permissions of the temporary file on creation and on each write.
struct Watcher final : memtune::FileSystem {
  int64_t write(int file, const char* data, int64_t bytes) override {
    seen |= permissions(file);
    return FileSystem::write(file, data, bytes);
  }
  int open(const fs::path& path, int flags, unsigned mode) override {
    const int file = FileSystem::open(path, flags, mode);
    if ((flags & O_CREAT) != 0) seen |= permissions(file), made = path;
    return file;
  }
  static unsigned permissions(int file) {
    struct stat info {};
    ::fstat(file, &info);
    return info.st_mode & 0777;
  }
  unsigned seen = 0;
  fs::path made;  // the last created file
};

}  // namespace

TEST_CASE("a write does not follow a link with the name of its temporary file") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "file", mine = folder.path / "mine";
  write_file(mine, "precious");
  Watcher watcher;
  write_file(path, "a", watcher);
  const std::string name = watcher.made.string();  // file.tmp.PROCESS.NUMBER
  const size_t point = name.rfind('.');
  for (int next = 1; next <= 5; ++next)
    fs::create_symlink("mine", name.substr(0, point + 1) + std::to_string(std::stoi(name.substr(point + 1)) + next));
  write_file(path, "b");
  CHECK_FALSE(fs::is_symlink(path));
  CHECK(read_file(path) == "b");
  CHECK(read_file(mine) == "precious");
  CHECK(entries(folder.path) == 7);
}

TEST_CASE("a private file is never readable by others during a rewrite") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "secret";
  write_file(path, "a");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  Watcher watcher;
  write_file(path, "b", watcher);
  CHECK(watcher.seen == 0600);
  CHECK(read_file(path) == "b");
}

TEST_CASE("a file keeps its owner and group if root rewrites it") {
  if (::geteuid() != 0) return;
  const ScratchFolder folder;
  const fs::path path = folder.path / "file";
  constexpr uid_t kOwner = 65534;
  constexpr gid_t kGroup = 12345;
  write_file(path, "a");
  REQUIRE(::chown(path.c_str(), kOwner, kGroup) == 0);
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  write_file(path, "b");
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK(info.st_uid == kOwner);
  CHECK(info.st_gid == kGroup);
  CHECK((info.st_mode & 07777) == 0640);
}

TEST_CASE("the error for a lock in use names the process that holds it") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "lock";
  const FileLock held(path);
  const std::string message = "'" + path.string() + "' is locked by process " + std::to_string(::getpid()) +
                              "; wait until it ends or use another folder";
  CHECK_THROWS_WITH_AS(FileLock{path}, message.c_str(), UsageError);
}

TEST_CASE("a lock with a timeout waits until the lock is free") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "lock";
  auto held = std::make_unique<FileLock>(path);
  CHECK_THROWS_AS((FileLock{path, system_files(), std::chrono::milliseconds(50)}), UsageError);
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held.reset();
  });
  CHECK_NOTHROW((FileLock{path, system_files(), std::chrono::seconds(20)}));
  holder.join();
}

TEST_CASE("a lock is free after its release or the death of its process") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "lock";
  { const FileLock first(path); }
  { const FileLock second(path); }
  const pid_t child = start_holder(path);
  CHECK_THROWS_AS(FileLock{path}, UsageError);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const FileLock third(path);
  CHECK(read_file(path) == std::to_string(::getpid()) + "\n");
}

TEST_CASE("the executable's path is absolute and exists") {
  CHECK(executable_path().is_absolute());
  CHECK(fs::is_regular_file(executable_path()));
}

namespace {

using memtune::test::Fault;
using memtune::test::FaultyDisk;

// Runs `act` with each of its calls failing once, in turn, in each of the `ways`. `check` gets whether `act` threw.
template <class Prepare, class Act, class Check>
void walk(std::initializer_list<Fault::Kind> ways, Prepare prepare, Act act, Check check) {
  for (const Fault::Kind way : ways) {
    int failing = 1;
    for (bool struck = true; struck; ++failing) {
      CAPTURE(static_cast<int>(way));
      CAPTURE(failing);
      FaultyDisk disk;
      prepare();
      disk.arm({way, EIO, failing});
      bool threw = false;
      try {
        act(disk);
      } catch (const IoError&) {
        threw = true;
      }
      struck = disk.calls() >= failing;
      if (!struck) CHECK_FALSE(threw);
      check(threw);
    }
    CHECK(failing > 3);
  }
}

}  // namespace

TEST_CASE("if any call of a write fails the file has the old or the new content and no other file is left") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a";
  const std::string old(3000, 'o'), fresh(5000, 'n');
  int kept = 0, replaced = 0;
  walk(
      {Fault::Kind::refused, Fault::Kind::half, Fault::Kind::nothing}, [&] { write_file(path, old); },
      [&](FaultyDisk& disk) { write_file(path, fresh, disk); },
      [&](bool threw) {
        const std::string seen = read_file(path);
        CHECK((seen == fresh || (threw && seen == old)));
        CHECK(entries(folder.path) == 1);
        (seen == old ? kept : replaced) += threw;
      });
  CHECK(kept >= 4);      // open, write, sync, rename
  CHECK(replaced == 2);  // open and sync of the folder
}

TEST_CASE("if any call of publish_file fails the file has the old or the new content") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a", aside = folder.path / "aside";
  const auto prepare = [&] {
    write_file(path, "old");
    write_file(aside, "new");
  };
  walk(
      {Fault::Kind::refused}, prepare, [&](FaultyDisk& disk) { publish_file(aside, path, disk); },
      [&](bool threw) {
        const std::string seen = read_file(path);
        CHECK((seen == "new" || (threw && seen == "old")));
        CHECK(fs::exists(aside) == (seen == "old"));
      });
}

TEST_CASE("if any call of an append fails the record is complete or absent") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "journal";
  for (const std::string& before : {std::string(), std::string("one\n")}) {
    walk(
        {Fault::Kind::refused, Fault::Kind::half, Fault::Kind::nothing}, [&] { write_file(path, before); },
        [&](FaultyDisk& disk) { append_file(path, "two\n", disk); },
        [&](bool threw) {
          const std::string seen = read_file(path);
          CHECK((seen == before + "two\n" || (threw && seen == before)));
        });
  }
}

TEST_CASE("a failed read throws and a short read continues") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a";
  const std::string content(9000, 'c');
  write_file(path, content);
  std::string seen;
  walk(
      {Fault::Kind::refused, Fault::Kind::half}, [&] { seen.clear(); },
      [&](FaultyDisk& disk) { seen = read_file(path, disk); }, [&](bool threw) { CHECK((threw || seen == content)); });
  walk(
      {Fault::Kind::refused, Fault::Kind::half, Fault::Kind::nothing}, [&] { seen.assign(4000, '.'); },
      [&](FaultyDisk& disk) {
        const RandomAccessFileReader file(path, disk);
        file.read(seen.data(), 2000, 100);
        file.read(seen.data() + 2000, 2000, 7000);
      },
      [&](bool threw) { CHECK((threw || seen == std::string(4000, 'c'))); });
}

TEST_CASE("a lock whose acquisition failed is free") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "lock";
  walk(
      {Fault::Kind::refused}, [] {}, [&](FaultyDisk& disk) { const FileLock lock(path, disk); },
      [&](bool) { const FileLock lock(path); });
}

TEST_CASE("an output file appears when it is finished and is removed if it never is") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a";
  {
    AtomicFileWriter file(path);
    file.write("half");
    CHECK_FALSE(fs::exists(path));
  }
  CHECK(entries(folder.path) == 0);
  AtomicFileWriter file(path);
  file.write("one, ");
  file.write("two");
  file.finish();
  CHECK(read_file(path) == "one, two");
  CHECK(entries(folder.path) == 1);
}

TEST_CASE("a read past the end is an error with the size of the file") {
  const ScratchFolder folder;
  const fs::path path = folder.path / "a";
  write_file(path, "12345678");
  const RandomAccessFileReader file(path);
  CHECK(file.size() == 8);
  char bytes[4];
  file.read(bytes, 4, 4);
  CHECK(std::string(bytes, 4) == "5678");
  CHECK_THROWS_WITH_AS(file.read(bytes, 4, 6), ("'" + path.string() + "' ends at byte 8").c_str(), IoError);
}

TEST_CASE("a file that is truncated during reads causes an error and not a signal") {
  const ScratchFolder folder;
  const std::string path = (folder.path / "a").string();
  write_file(path, std::string(1 << 20, 'x'));
  const RandomAccessFileReader file(path);
  fs::resize_file(path, 100);
  std::string bytes(1 << 16, ' ');
  file.read(bytes.data(), 100, 0);
  CHECK_THROWS_WITH_AS(file.read(bytes.data(), 1 << 16, 0), ("'" + path + "' ends at byte 100").c_str(), IoError);
}

TEST_CASE("cut_file truncates a file to the given size") {
  const ScratchFolder folder;
  write_file(folder.path / "a", "12345678");
  cut_file(folder.path / "a", 3);
  CHECK(read_file(folder.path / "a") == "123");
}

}  // namespace memtune::base_file_test
