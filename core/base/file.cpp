#include "core/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/base/uninterrupted.h"

namespace memtune {
namespace fs = std::filesystem;
namespace {

constexpr unsigned kEverybody = 0666;  // reduced by umask
constexpr unsigned kPermissions = 0777;

// Text for an errno, including the errors that ConfinedFileSystem returns.
std::string words(const fs::path& path, int error) {
  if (error == ELOOP) return "it is a symbolic link or behind one, and memtune follows none here";
  if (error == EXDEV) return "it leads out of its folder";
  const std::string other = error == ESPIPE ? other_than_file(path) : "";
  if (error == ESPIPE) return "it is " + (other.empty() ? "no regular file" : other + "; a regular file is needed");
  if (error == EINTR) return "a signal ended the wait for it";
  if (error == ENXIO) return "nothing reads from it";
  if (const std::string limit = file_size_limit(); error == EFBIG && !limit.empty()) return limit;
  return std::generic_category().message(error);
}

FileDescriptor open(FileSystem& system, const fs::path& path, int flags, const char* operation) {
  const int file = open_file(system, path, flags, kEverybody);
  if (file < 0) throw_io_error(operation, path, -file);
  return FileDescriptor(file);
}

void write_all(FileSystem& system, int file, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const int64_t written =
        uninterrupted([&] { return system.write(file, content.data(), static_cast<int64_t>(content.size())); });
    if (written <= 0) throw_io_error("write", path, written == 0 ? EIO : -written);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

// Pipes, terminals and some network file systems have nothing to sync and return EINVAL.
void sync(FileSystem& system, int file, const fs::path& path) {
  const int result = uninterrupted([&] { return system.sync(file); });
  if (result < 0 && result != -EINVAL && result != -EROFS) throw_io_error("sync", path, -result);
}

void sync_folder_of(FileSystem& system, const fs::path& path) {
  sync_folder(path.has_parent_path() ? path.parent_path() : fs::path("."), system);
}

void rename_to(FileSystem& system, const fs::path& aside, const fs::path& path) {
  const int renamed = uninterrupted([&] { return system.rename(aside, path); });
  if (renamed < 0) throw_io_error("write", path, -renamed);
}

void resize(FileSystem& system, int file, int64_t bytes, const fs::path& path) {
  const int result = uninterrupted([&] { return system.resize(file, bytes); });
  if (result < 0) throw_io_error("cut", path, -result);
}

int64_t size_of(FileSystem& system, int file, const fs::path& path) {
  const int64_t size = system.size(file);
  if (size < 0) throw_io_error("read", path, -size);
  return size;
}

fs::path temporary_beside(const fs::path& path) {  // unique among threads and running processes
  static std::atomic<int> counter{0};
  return path.string() + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

// Creates a new file next to `path`. O_EXCL keeps it from following a planted link or reusing the file of a killed
// process.
FileDescriptor open_beside(FileSystem& system, const fs::path& path, unsigned mode, fs::path& aside) {
  int file = -EEXIST;
  while (file == -EEXIST) {
    aside = temporary_beside(path);
    file = open_file(system, aside, O_WRONLY | O_CREAT | O_EXCL, mode);
  }
  if (file < 0) throw_io_error("write", path, -file);
  return FileDescriptor(file);
}

// Best effort: only root may change owners, and some file systems store none.
void keep_owner_and_permissions(int file, const struct stat& before) {
  [[maybe_unused]] const bool kept =
      ::fchown(file, before.st_uid, before.st_gid) == 0 || ::fchown(file, static_cast<uid_t>(-1), before.st_gid) == 0;
  ::fchmod(file, before.st_mode & kPermissions);
}

fs::path behind_links(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored) ? fs::weakly_canonical(path) : path;
}

std::string read_from(FileSystem& system, int file, const fs::path& path, int64_t most_bytes) {
  const int64_t expected = size_of(system, file, path);
  std::string content;
  size_t size = 0;
  while (static_cast<int64_t>(size) <= most_bytes && expected <= most_bytes) {
    // The size is only a hint: files grow, and /proc reports 0.
    if (size == content.size())
      content.resize(size + std::max<size_t>(4096, size == 0 ? static_cast<size_t>(expected) + 1 : size));
    const int64_t got = uninterrupted(
        [&] { return system.read(file, content.data() + size, static_cast<int64_t>(content.size() - size)); });
    if (got < 0) throw_io_error("read", path, -got);
    if (got == 0) return content.resize(size), content;
    size += static_cast<size_t>(got);
  }
  throw IoError("cannot read '" + path.string() + "': it has more than " + std::to_string(most_bytes) + " bytes");
}

// Returns the process id in a lock file, "" if the file is empty. Does not change the file offset.
std::string holder_in(FileSystem& system, int file, const fs::path& path) {
  char text[32];
  const int64_t count = uninterrupted([&] { return system.read_at(file, text, sizeof text, 0); });
  if (count < 0) throw_io_error("read", path, -count);
  const std::string number = trim({text, static_cast<size_t>(count)});
  if (number.size() <= 10 && number.find_first_not_of("0123456789") == std::string::npos) return number;
  throw UsageError("'" + path.string() + "' was not written by memtune; use another folder");
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  FileDescriptor taken(std::move(other));
  std::swap(file_, taken.file_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (file_ >= 0) ::close(file_);
}

std::string read_file(const fs::path& path, FileSystem& system, int64_t most_bytes) {
  return read_from(system, open(system, path, O_RDONLY, "read").get(), path, most_bytes);
}

void write_file(const fs::path& path, std::string_view content, FileSystem& system) {
  AtomicFileWriter file(path, system);
  file.write(content);
  file.finish();
}

void append_file(const fs::path& path, std::string_view content, FileSystem& system) {
  const FileDescriptor file = open(system, path, O_WRONLY | O_CREAT | O_APPEND, "append to");
  const int64_t before = size_of(system, file.get(), path);
  try {
    write_all(system, file.get(), content, path);
    sync(system, file.get(), path);
  } catch (const IoError&) {
    system.resize(file.get(), before);  // a partial record, for example on a full disk, would corrupt the next one
    throw;
  }
  if (before == 0) sync_folder_of(system, path);
}

void publish_file(const fs::path& aside, const fs::path& path, FileSystem& system) {
  sync(system, open(system, aside, O_RDONLY, "sync").get(), path);
  rename_to(system, aside, path);
  sync_folder_of(system, path);
}

void remove_file(const fs::path& path, FileSystem& system) {
  const int removed = system.unlink(path);
  if (removed < 0 && removed != -ENOENT) throw_io_error("remove", path, -removed);
}

bool make_folders(const fs::path& path, FileSystem& system) {
  const FileDescriptor there(uninterrupted([&] { return system.open(path, O_RDONLY | O_DIRECTORY, 0); }));
  if (there.get() >= 0) return false;
  if (there.get() != -ENOENT) throw_io_error("make the folder", path, -there.get());
  const fs::path parent = path.parent_path();
  const bool made_parent = !parent.empty() && parent != path && make_folders(parent, system);
  const int made = system.make_folder(path);
  if (made < 0 && made != -EEXIST) throw_io_error("make the folder", path, -made);
  return made == 0 || made_parent;
}

void sync_folder(const fs::path& folder, FileSystem& system) {
  sync(system, open(system, folder, O_RDONLY | O_DIRECTORY, "open").get(), folder);
}

std::vector<std::string> names_in(const fs::path& folder, FileSystem& system) {
  std::vector<std::string> names;
  const FileDescriptor opened = open(system, folder, O_RDONLY | O_DIRECTORY, "read");
  const int result = uninterrupted([&] { return system.names_in(opened.get(), names); });
  if (result < 0) throw_io_error("read", folder, -result);
  std::ranges::sort(names);
  return names;
}

void cut_file(const fs::path& path, int64_t bytes, FileSystem& system) {
  resize(system, open(system, path, O_WRONLY, "cut").get(), bytes, path);
}

RandomAccessFileReader::RandomAccessFileReader(const fs::path& path, FileSystem& system)
    : path_(path), system_(system), file_(open(system, path, O_RDONLY, "read")) {
  size_ = size_of(system, file_.get(), path);
}

void RandomAccessFileReader::read(char* data, int64_t bytes, int64_t offset) const {
  while (bytes > 0) {
    const int64_t got = uninterrupted([&] { return system_.read_at(file_.get(), data, bytes, offset); });
    if (got < 0) throw_io_error("read", path_, -got);
    if (got == 0) throw IoError("'" + path_.string() + "' ends at byte " + std::to_string(offset));
    data += got, bytes -= got, offset += got;
  }
}

AtomicFileWriter::AtomicFileWriter(const fs::path& path, FileSystem& system)
    : path_(behind_links(path)), system_(system) {
  struct stat before {};
  const bool exists = ::stat(path_.c_str(), &before) == 0;
  if (exists && S_ISDIR(before.st_mode)) throw_io_error("write", path_, EISDIR);
  if (exists && !S_ISREG(before.st_mode)) {  // renaming would replace it instead of writing to it
    const int stream = open_stream(system_, path_);
    if (stream < 0) throw_io_error("write", path_, -stream);
    file_ = FileDescriptor(stream);
    return;
  }
  file_ = open_beside(system_, path_, exists ? before.st_mode & kPermissions : kEverybody, aside_);
  if (exists) keep_owner_and_permissions(file_.get(), before);
}

AtomicFileWriter::~AtomicFileWriter() {
  if (!aside_.empty()) system_.unlink(aside_);
}

void AtomicFileWriter::write(std::string_view part) { write_all(system_, file_.get(), part, path_); }

void AtomicFileWriter::cut(int64_t bytes) { resize(system_, file_.get(), bytes, path_); }

void AtomicFileWriter::finish() {
  sync(system_, file_.get(), path_);
  if (aside_.empty()) return;
  rename_to(system_, aside_, path_);
  aside_.clear();
  sync_folder_of(system_, path_);
}

FileLock::FileLock(const fs::path& path, FileSystem& system, std::chrono::milliseconds timeout)
    : file_(open(system, path, O_RDWR | O_CREAT, "lock")) {
  constexpr std::chrono::milliseconds kBetweenTries{20};
  int locked = 0;
  while ((locked = uninterrupted([&] { return system.lock(file_.get()); })) == -EWOULDBLOCK && timeout.count() > 0) {
    std::this_thread::sleep_for(kBetweenTries);
    timeout -= kBetweenTries;
  }
  if (locked < 0 && locked != -EWOULDBLOCK) throw_io_error("lock", path, -locked);
  const std::string holder = holder_in(system, file_.get(), path);
  if (locked < 0) {
    throw UsageError("'" + path.string() + "' is locked by " +
                     (holder.empty() ? "another process" : "process " + holder) +
                     "; wait until it ends or use another folder");
  }
  resize(system, file_.get(), 0, path);
  write_all(system, file_.get(), std::to_string(::getpid()) + "\n", path);
}

IoError system_error(const std::string& what, int error) {
  return IoError(what + ": " + std::generic_category().message(error));
}

void throw_io_error(const char* operation, const fs::path& path, int64_t error) {
  const std::string message =
      "cannot " + std::string(operation) + " '" + path.string() + "': " + words(path, static_cast<int>(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) throw DiskFullError(message);
  throw IoError(message);
}

fs::path executable_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw_io_error("read", "/proc/self/exe", error.value());
  return path;
}

}  // namespace memtune
