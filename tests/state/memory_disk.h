// A file system in memory that records every change, to derive what a power loss may leave.
//
// A file's changes are safe once the file is synced, a name once its folder is synced. A power loss leaves any subset
// of the other changes. A write may also be left in part, sector by sector. A transfer writes when it is reaped.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/engine/disk/async_file_io.h"

namespace memtune::test {

class MemoryDisk final : public disk::AsyncDirectIoFileSystem {
 public:
  struct Change {
    enum class Kind { write, resize, names, sync } kind = Kind::sync;
    size_t node = 0;
    int64_t offset = 0;  // resize: bytes
    std::string bytes;
    std::vector<std::pair<std::string, std::optional<size_t>>> names;  // names that the folder gains or loses
  };

  explicit MemoryDisk(const std::filesystem::path& folder) {
    size_t node = 0;
    for (const auto& part : folder.relative_path()) node = nodes_[node].names[part] = add_node(true);
  }

  const std::vector<Change>& changes() const { return changes_; }
  size_t nodes() const { return nodes_.size(); }

  // The disk after a power loss that follows the first `count` changes of `before`. All folders of `before` are those
  // of `base`. The sync with index `ignored` counts as none.
  MemoryDisk(const MemoryDisk& base, const MemoryDisk& before, size_t count, std::mt19937_64& random,
             size_t ignored = SIZE_MAX)
      : nodes_(base.nodes_) {
    nodes_.resize(before.nodes());
    for (size_t i = base.nodes(); i < nodes_.size(); ++i) nodes_[i].folder = before.nodes_[i].folder;
    std::vector<size_t> safe(nodes_.size(), 0);  // per node: changes before this index are safe
    for (size_t i = 0; i < count; ++i)
      if (before.changes_[i].kind == Change::Kind::sync && i != ignored) safe[before.changes_[i].node] = i;
    const unsigned kept_of_8 = std::array{0U, 1U, 4U, 7U, 8U}[random() % 5];
    for (size_t i = 0; i < count; ++i) {
      const Change& change = before.changes_[i];
      if (i < safe[change.node] || random() % 8 < kept_of_8) {
        apply(change);
      } else if (change.kind == Change::Kind::write && random() % 2 == 0) {
        tear(change, random);
      }
    }
  }

  int open(const std::filesystem::path& path, int flags, unsigned /*mode*/) override {
    const auto [folder, name] = find(path);
    if (!folder) return -ENOENT;
    std::optional<size_t> node = name.empty() ? folder : child(*folder, name);
    if (!node && (flags & O_CREAT) == 0) return -ENOENT;
    if (node && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
    if (!node) {
      node = add_node(false);
      change({Change::Kind::names, *folder, 0, "", {{name, node}}});
    }
    if ((flags & O_DIRECTORY) != 0 && !nodes_[*node].folder) return -ENOTDIR;
    if ((flags & O_TRUNC) != 0) change({Change::Kind::resize, *node, 0, "", {}});
    const int file = ::memfd_create("memory", MFD_CLOEXEC);  // a real descriptor that can be closed
    open_[file] = {*node, 0};
    return file;
  }
  int64_t read(int file, char* data, int64_t bytes) override {
    Open& at = open_.at(file);
    const int64_t got = read_at(file, data, bytes, at.offset);
    at.offset += got;
    return got;
  }
  int64_t read_at(int file, char* data, int64_t bytes, int64_t offset) override {
    const std::string& content = nodes_[open_.at(file).node].bytes;
    if (offset >= static_cast<int64_t>(content.size())) return 0;
    return static_cast<int64_t>(content.copy(data, static_cast<size_t>(bytes), static_cast<size_t>(offset)));
  }
  int64_t write(int file, const char* data, int64_t bytes) override {
    Open& at = open_.at(file);
    change({Change::Kind::write, at.node, at.offset, {data, static_cast<size_t>(bytes)}, {}});
    at.offset += bytes;
    return bytes;
  }
  int64_t size(int file) override { return static_cast<int64_t>(nodes_[open_.at(file).node].bytes.size()); }
  int sync(int file) override { return change({Change::Kind::sync, open_.at(file).node, 0, "", {}}); }
  int resize(int file, int64_t bytes) override {
    return change({Change::Kind::resize, open_.at(file).node, bytes, "", {}});
  }
  int allocate(int file, int64_t offset, int64_t bytes) override {
    return resize(file, std::max(size(file), offset + bytes));
  }
  int status(int /*file*/, struct statfs& status) override {
    status = {};
    status.f_bsize = disk::kAlignment;
    status.f_blocks = status.f_bavail = 1 << 20;
    return 0;
  }
  int64_t direct_alignment(int /*file*/) override { return disk::kAlignment; }
  int make_direct(int /*file*/) override { return 0; }
  std::unique_ptr<disk::AsyncFileIo> start_io(int file, int /*depth*/, disk::IoBackend /*backend*/) override {
    return std::make_unique<MemoryIo>(*this, open_.at(file).node);
  }
  int make_folder(const std::filesystem::path& path) override {
    const auto [folder, name] = find(path);
    if (!folder) return -ENOENT;
    if (child(*folder, name)) return -EEXIST;
    return change({Change::Kind::names, *folder, 0, "", {{name, add_node(true)}}});
  }
  int remove_folder(const std::filesystem::path& path) override {
    const auto [folder, name] = find(path);
    const auto node = folder ? child(*folder, name) : std::nullopt;
    if (!node) return -ENOENT;
    if (!nodes_[*node].names.empty()) return -ENOTEMPTY;
    return change({Change::Kind::names, *folder, 0, "", {{name, std::nullopt}}});
  }
  int names_in(int file, std::vector<std::string>& names) override {
    for (const auto& [name, node] : nodes_[open_.at(file).node].names) names.push_back(name);
    return 0;
  }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    const auto [folder, name] = find(from);
    const auto node = folder ? child(*folder, name) : std::nullopt;
    if (!node) return -ENOENT;
    return change({Change::Kind::names, *folder, 0, "", {{name, std::nullopt}, {to.filename(), node}}});
  }
  int unlink(const std::filesystem::path& path) override {
    const auto [folder, name] = find(path);
    if (!folder || !child(*folder, name)) return -ENOENT;
    return change({Change::Kind::names, *folder, 0, "", {{name, std::nullopt}}});
  }

 private:
  static constexpr size_t kSector = 512;

  struct Node {
    bool folder = false;
    std::string bytes;
    std::map<std::string, size_t> names;
  };
  struct Open {
    size_t node = 0;
    int64_t offset = 0;
  };

  // Applies writes in order.
  class MemoryIo final : public disk::AsyncFileIo {
   public:
    MemoryIo(MemoryDisk& disk, size_t node) : disk_(disk), node_(node) {}
    int submit(const disk::IoSubmission& transfer, size_t tag) override {
      std::lock_guard lock(mutex_);
      flights_.emplace_back(transfer, tag);
      return 0;
    }
    disk::IoCompletion reap() override {
      std::lock_guard lock(mutex_);
      const auto [transfer, tag] = flights_.front();
      flights_.pop_front();
      disk_.change(
          {Change::Kind::write, node_, transfer.offset, {transfer.data, static_cast<size_t>(transfer.bytes)}, {}});
      return {tag, transfer.bytes};
    }
    const char* name() const override { return "memory"; }

   private:
    MemoryDisk& disk_;
    size_t node_;
    std::mutex mutex_;
    std::deque<std::pair<disk::IoSubmission, size_t>> flights_;
  };

  size_t add_node(bool folder) {
    nodes_.push_back({folder, "", {}});
    return nodes_.size() - 1;
  }
  std::optional<size_t> child(size_t folder, const std::string& name) const {
    const auto found = nodes_[folder].names.find(name);
    return found == nodes_[folder].names.end() ? std::nullopt : std::optional(found->second);
  }
  // The folder that contains a path, and the name in it.
  std::pair<std::optional<size_t>, std::string> find(const std::filesystem::path& path) const {
    std::optional<size_t> node = 0;
    std::string name;
    for (const auto& part : path.lexically_normal().relative_path()) {
      if (part.empty() || part == ".") continue;
      if (!name.empty()) node = node ? child(*node, name) : std::nullopt;
      name = part;
    }
    return {node, name};
  }

  int change(Change change) {
    std::lock_guard lock(changing_);
    apply(change);
    changes_.push_back(std::move(change));
    return 0;
  }
  void apply(const Change& change) {
    Node& node = nodes_[change.node];
    if (change.kind == Change::Kind::write) put(node, change.offset, change.bytes);
    if (change.kind == Change::Kind::resize) node.bytes.resize(static_cast<size_t>(change.offset));
    for (const auto& [name, to] : change.names) {
      if (to) node.names[name] = *to;
      if (!to) node.names.erase(name);
    }
  }
  static void put(Node& node, int64_t offset, const std::string& bytes) {
    const size_t at = static_cast<size_t>(offset);
    node.bytes.resize(std::max(node.bytes.size(), at + bytes.size()));
    node.bytes.replace(at, bytes.size(), bytes);
  }
  void tear(const Change& change, std::mt19937_64& random) {
    for (size_t begin = 0; begin < change.bytes.size(); begin += kSector)
      if (random() % 2 == 0)
        put(nodes_[change.node], change.offset + static_cast<int64_t>(begin), change.bytes.substr(begin, kSector));
  }

  std::vector<Node> nodes_{{true, "", {}}};
  std::map<int, Open> open_;
  std::vector<Change> changes_;
  std::mutex changing_;  // transfers run on other threads
};

}  // namespace memtune::test
