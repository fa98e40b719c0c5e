// io_uring: the kernel runs all transfers concurrently, without a thread per transfer.
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/engine/disk/async_file_io.h"

namespace memtune::disk {
namespace {

constexpr int kRefusals = 100;                          // consecutive transient refusals before giving up
constexpr unsigned kPinnedRanges = 64;                  // entries in the kernel's table
constexpr int64_t kPinnedBytes = int64_t{1} << 30;      // largest size of an entry
constexpr int64_t kLargestTransfer = int64_t{1} << 30;  // a larger one ends short, which callers handle

// For ThreadSanitizer: a new ring may be mapped where a destroyed one was, by system calls that it does not see. The
// lock orders the two.
std::mutex rings_come_and_go;

int make_ring(int depth, io_uring& ring) {
  const std::lock_guard lock(rings_come_and_go);
  return io_uring_queue_init(static_cast<unsigned>(depth), &ring, 0);
}

void end_ring(io_uring& ring) {
  const std::lock_guard lock(rings_come_and_go);
  io_uring_queue_exit(&ring);
}

bool passing(int error) { return error == -EINTR || error == -EAGAIN || error == -EBUSY; }

class UringIo final : public AsyncFileIo {
 public:
  UringIo(int file, io_uring ring) : file_(file), ring_(ring) {}
  ~UringIo() override { end_ring(ring_); }
  UringIo(const UringIo&) = delete;
  UringIo& operator=(const UringIo&) = delete;

  int submit(const IoSubmission& transfer, size_t tag) override {
    std::lock_guard lock(mutex_);
    if (broken_ != 0) return broken_;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return -EBUSY;
    prepare(*entry, transfer);
    io_uring_sqe_set_data64(entry, tag);
    int result = 0;
    for (int tries = 0; tries < kRefusals; ++tries) {
      result = io_uring_submit(&ring_);
      if (result > 0) return 0;
      if (result < 0 && !passing(result)) break;
    }
    // The entry stays in the queue. It must never start after the caller was informed that it did not.
    return broken_ = result < 0 ? result : -EIO;
  }

  IoCompletion reap() override {
    io_uring_cqe* entry = nullptr;
    int result = 0;
    do {
      result = io_uring_wait_cqe(&ring_, &entry);
    } while (passing(result));
    // Throws, because the kernel may still write to the transfers' memory, which could then never be freed.
    if (result < 0) throw std::runtime_error("io_uring lost its transfers: errno " + std::to_string(-result));
    const IoCompletion completion{static_cast<size_t>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

  // Fails beyond RLIMIT_MEMLOCK and on kernels before 5.19. Pages are then looked up for each transfer.
  void pin(char* data, int64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (pinned_.empty() && io_uring_register_buffers_sparse(&ring_, kPinnedRanges) != 0) return;
    for (; bytes > 0 && pinned_.size() < kPinnedRanges; data += kPinnedBytes, bytes -= kPinnedBytes) {
      const iovec range{data, static_cast<size_t>(std::min(bytes, kPinnedBytes))};
      const auto place = static_cast<unsigned>(pinned_.size());
      const __u64 untagged = 0;
      if (io_uring_register_buffers_update_tag(&ring_, place, &range, &untagged, 1) != 1) return;
      pinned_.push_back(range);
    }
  }

  const char* name() const override { return "io_uring"; }

 private:
  void prepare(io_uring_sqe& entry, const IoSubmission& transfer) const {
    const auto bytes = static_cast<unsigned>(std::min(transfer.bytes, kLargestTransfer));
    const int place = pinned_place(transfer.data, bytes);
    const bool read = transfer.kind == IoSubmission::Kind::read;
    const int pinned = read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
    const int plain = read ? IORING_OP_READ : IORING_OP_WRITE;
    io_uring_prep_rw(place < 0 ? plain : pinned, &entry, file_, transfer.data, bytes,
                     static_cast<uint64_t>(transfer.offset));
    if (place >= 0) entry.buf_index = static_cast<uint16_t>(place);
  }

  int pinned_place(const char* data, unsigned bytes) const {
    for (size_t place = 0; place < pinned_.size(); ++place) {
      const char* begin = static_cast<const char*>(pinned_[place].iov_base);
      if (data >= begin && data + bytes <= begin + pinned_[place].iov_len) return static_cast<int>(place);
    }
    return -1;
  }

  int file_;
  std::mutex mutex_;  // guards submission; one thread takes the completions
  io_uring ring_;
  std::vector<iovec> pinned_;
  int broken_ = 0;
};

// Kernels before 5.6 have rings without reads. Some sandboxes allow a ring that does not work.
bool works(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  const bool complete = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                        io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  if (!complete) return false;
  io_uring_prep_nop(io_uring_get_sqe(&ring));
  io_uring_cqe* entry = nullptr;
  if (io_uring_submit_and_wait(&ring, 1) != 1 || io_uring_peek_cqe(&ring, &entry) != 0) return false;
  io_uring_cqe_seen(&ring, entry);
  return true;
}

}  // namespace

std::unique_ptr<AsyncFileIo> make_uring_io(int file, int depth) {
  io_uring ring{};
  if (make_ring(depth, ring) != 0) return nullptr;
  if (works(ring)) return std::make_unique<UringIo>(file, ring);
  end_ring(ring);
  return nullptr;
}

}  // namespace memtune::disk
