// A file system on which one call, or every call from one on, fails or corrupts data.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "core/engine/disk/async_file_io.h"

namespace memtune::test {

// Memory aligned for transfers.
class AlignedMemory {
 public:
  explicit AlignedMemory(int64_t bytes)
      : data_(static_cast<char*>(std::aligned_alloc(disk::kAlignment, static_cast<size_t>(disk::round_up(bytes))))) {
    std::memset(data_, 0, static_cast<size_t>(disk::round_up(bytes)));
  }
  ~AlignedMemory() { std::free(data_); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  char* data() { return data_; }

 private:
  char* data_;
};

struct Fault {
  enum class Kind {
    none,
    refused,  // the call itself returns `error`
    failed,   // a transfer starts and ends with `error`
    half,     // a transfer copies half of its bytes
    nothing,  // a transfer copies nothing, and reports that
    flipped,  // a transfer copies all bytes, with one bit of the first 1,000 bytes changed
    half_flipped,
  } kind = Kind::none;
  int error = 0;
  int at = 0;  // number of the call, from 1
  bool for_ever = false;
};

// A function that a test attaches to a call. It may be set while other threads make calls.
template <typename Signature>
class Hook {
 public:
  Hook& operator=(std::function<Signature> function) {
    std::lock_guard lock(mutex_);
    function_ = std::move(function);
    return *this;
  }
  std::function<Signature> get() const {  // empty if not set
    std::lock_guard lock(mutex_);
    return function_;
  }

 private:
  mutable std::mutex mutex_;
  std::function<Signature> function_;
};

class FaultyDisk final : public disk::AsyncDirectIoFileSystem {
 public:
  // Sets the fault and restarts the count of calls.
  void arm(const Fault& fault) {
    std::lock_guard lock(mutex_);
    fault_ = fault;
    calls_ = 0;
  }
  int calls() const {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  std::atomic<int> pins = 0;                        // number of registrations of memory
  std::atomic<bool> misdirect = false;              // all transfers go to the start of the file
  Hook<int(int flags)> on_open;                     // returns -errno to refuse
  Hook<void(struct statfs&)> on_status;             // may change the result
  Hook<std::optional<int64_t>()> on_alignment;      // may change the result
  Hook<void(const disk::IoSubmission&)> on_submit;  // only observes
  Hook<std::optional<int>(int64_t)> on_allocate;    // may refuse

  int open(const std::filesystem::path& path, int flags, unsigned mode) override {
    const auto hook = on_open.get();
    if (const int refused = hook ? hook(flags) : 0; refused < 0) return refused;
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::open(path, flags, mode);
  }
  int64_t read(int file, char* data, int64_t bytes) override {
    return falsified(data, bytes,
                     [&](char* to, int64_t most) { return AsyncDirectIoFileSystem::read(file, to, most); });
  }
  int64_t read_at(int file, char* data, int64_t bytes, int64_t offset) override {
    return falsified(data, bytes,
                     [&](char* to, int64_t most) { return AsyncDirectIoFileSystem::read_at(file, to, most, offset); });
  }
  int64_t write(int file, const char* data, int64_t bytes) override {
    const Fault fault = count();
    if (fails(fault)) return -fault.error;
    if (fault.kind == Fault::Kind::nothing) return 0;
    std::string aside(data, static_cast<size_t>(halved(fault.kind) ? bytes / 2 : bytes));
    if (flipped(fault.kind)) flip(aside.data(), static_cast<int64_t>(aside.size()));
    return AsyncDirectIoFileSystem::write(file, aside.data(), static_cast<int64_t>(aside.size()));
  }
  int64_t size(int file) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::size(file);
  }
  int sync(int file) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::sync(file);
  }
  int lock(int file) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::lock(file);
  }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::rename(from, to);
  }
  int make_folder(const std::filesystem::path& path) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::make_folder(path);
  }
  int remove_folder(const std::filesystem::path& path) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::remove_folder(path);
  }
  int names_in(int folder, std::vector<std::string>& names) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::names_in(folder, names);
  }
  int unlink(const std::filesystem::path& path) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::unlink(path);
  }
  int status(int file, struct statfs& status) override {
    const int refusal = strike();
    const int result = refusal < 0 ? refusal : AsyncDirectIoFileSystem::status(file, status);
    if (const auto hook = on_status.get()) hook(status);
    return result;
  }
  int allocate(int file, int64_t offset, int64_t bytes) override {
    const auto hook = on_allocate.get();
    if (const auto refusal = hook ? hook(bytes) : std::nullopt) return *refusal;
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::allocate(file, offset, bytes);
  }
  int resize(int file, int64_t bytes) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::resize(file, bytes);
  }
  int64_t direct_alignment(int file) override {
    const auto hook = on_alignment.get();
    if (const auto lie = hook ? hook() : std::nullopt) return *lie;
    return AsyncDirectIoFileSystem::direct_alignment(file);
  }
  int make_direct(int file) override {
    const int refusal = strike();
    return refusal < 0 ? refusal : AsyncDirectIoFileSystem::make_direct(file);
  }
  std::unique_ptr<disk::AsyncFileIo> start_io(int file, int depth, disk::IoBackend backend) override {
    auto io = AsyncDirectIoFileSystem::start_io(file, depth, backend);
    return io ? std::make_unique<FaultyIo>(*this, std::move(io)) : nullptr;
  }

 private:
  // A running transfer and its fault.
  struct Flight {
    disk::IoSubmission asked;
    Fault::Kind fault = Fault::Kind::none;
    int error = 0;
    std::shared_ptr<AlignedMemory> aside;  // used instead of the caller's memory
  };

  class FaultyIo final : public disk::AsyncFileIo {
   public:
    FaultyIo(FaultyDisk& disk, std::unique_ptr<disk::AsyncFileIo> real) : disk_(disk), real_(std::move(real)) {}

    int submit(const disk::IoSubmission& transfer, size_t tag) override {
      if (const auto hook = disk_.on_submit.get()) hook(transfer);
      const Fault fault = disk_.count();
      if (fault.kind == Fault::Kind::refused) return -fault.error;
      Flight flight{transfer, fault.kind, fault.error, nullptr};
      const disk::IoSubmission changed = disk_.change(flight);
      {
        std::lock_guard lock(mutex_);
        flights_[tag] = flight;
      }
      return real_->submit(changed, tag);
    }
    disk::IoCompletion reap() override {
      disk::IoCompletion completion = real_->reap();
      std::lock_guard lock(mutex_);
      completion.result = disk_.falsify(flights_[completion.tag], completion.result);
      return completion;
    }
    void pin(char* data, int64_t bytes) override {
      ++disk_.pins;
      real_->pin(data, bytes);
    }
    const char* name() const override { return real_->name(); }

   private:
    FaultyDisk& disk_;
    std::unique_ptr<disk::AsyncFileIo> real_;
    std::mutex mutex_;
    std::map<size_t, Flight> flights_;
  };

  // Counts the current call and returns its fault.
  Fault count() {
    std::lock_guard lock(mutex_);
    ++calls_;
    const bool struck = fault_.at > 0 && (calls_ == fault_.at || (fault_.for_ever && calls_ > fault_.at));
    return struck ? fault_ : Fault{};
  }
  int strike() {  // calls that are no transfers either succeed or fail
    const Fault fault = count();
    return fails(fault) ? -fault.error : 0;
  }

  int64_t falsified(char* data, int64_t bytes, const std::function<int64_t(char*, int64_t)>& read) {
    const Fault fault = count();
    if (fails(fault)) return -fault.error;
    if (fault.kind == Fault::Kind::nothing) return 0;
    const int64_t got = read(data, halved(fault.kind) ? (bytes + 1) / 2 : bytes);
    if (flipped(fault.kind) && got > 0) flip(data, got);
    return got;
  }

  // The transfer that really runs. If it must fail, that is a harmless read elsewhere.
  disk::IoSubmission change(Flight& flight) {
    disk::IoSubmission transfer = flight.asked;
    if (misdirect) transfer.offset = 0;
    if (flight.fault == Fault::Kind::none) return transfer;
    const bool write = transfer.kind == disk::IoSubmission::Kind::write;
    if (halved(flight.fault) && write) transfer.bytes = transfer.bytes / 2 / disk::kAlignment * disk::kAlignment;
    if (transfer.bytes == 0 || !(halved(flight.fault) || flipped(flight.fault))) {
      flight.aside = std::make_shared<AlignedMemory>(disk::kAlignment);
      return {disk::IoSubmission::Kind::read, 0, flight.aside->data(), disk::kAlignment};
    }
    if (flipped(flight.fault) && write) {
      flight.aside = std::make_shared<AlignedMemory>(transfer.bytes);
      std::memcpy(flight.aside->data(), transfer.data, static_cast<size_t>(transfer.bytes));
      flip(flight.aside->data(), transfer.bytes);
      transfer.data = flight.aside->data();
    }
    return transfer;
  }

  int64_t falsify(const Flight& flight, int64_t result) {
    if (flight.fault == Fault::Kind::failed) return -flight.error;
    if (flight.fault == Fault::Kind::nothing) return 0;
    const disk::IoSubmission& asked = flight.asked;
    const bool read = asked.kind == disk::IoSubmission::Kind::read;
    if (flipped(flight.fault) && read) flip(asked.data, asked.bytes);
    if (!halved(flight.fault)) return result;
    // A caller that ignores the short count must notice.
    if (read) std::memset(asked.data + asked.bytes / 2, 0xEE, static_cast<size_t>(asked.bytes - asked.bytes / 2));
    return asked.bytes / 2;
  }

  static bool halved(Fault::Kind kind) { return kind == Fault::Kind::half || kind == Fault::Kind::half_flipped; }
  static bool flipped(Fault::Kind kind) { return kind == Fault::Kind::flipped || kind == Fault::Kind::half_flipped; }
  static bool fails(const Fault& fault) {
    return fault.kind == Fault::Kind::refused || fault.kind == Fault::Kind::failed;
  }

  void flip(char* data, int64_t bytes) {
    std::lock_guard lock(mutex_);
    const auto bit = std::uniform_int_distribution<int64_t>(0, std::min<int64_t>(bytes, 1000) * 8 - 1)(random_);
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << (bit % 8)));
  }

  mutable std::mutex mutex_;
  std::mt19937_64 random_{1};
  Fault fault_;
  int calls_ = 0;
};

}  // namespace memtune::test
