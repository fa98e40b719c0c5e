#include "core/engine/disk/disk_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/engine/disk/request_queue.h"
#include "core/engine/disk/scratch_file.h"

namespace memtune::disk {
namespace {

constexpr int64_t kPiece = int64_t{8} << 20;
constexpr int kDepth = 8;

// Buffers for all pieces in flight.
class Pieces {
 public:
  char* piece(int64_t number) { return data_.get() + number % kDepth * kPiece; }

 private:
  AlignedBuffer data_ = noise(kDepth * kPiece);
};

// Transfers the whole file once.
double gb_per_s(const ScratchFile& file, IoBackend backend, IoSubmission::Kind kind, Pieces& pieces) {
  FirstIoFailureLatch failure;
  RequestQueue queue(file, file.start_io(kDepth, backend), kDepth, failure);
  std::vector<RequestPtr> requests;
  for (int64_t offset = 0; offset < file.bytes(); offset += kPiece) {
    RequestQueue::Job job;
    job.transfer = {kind, offset, pieces.piece(offset / kPiece), std::min(kPiece, file.bytes() - offset)};
    requests.push_back(job.request);
    queue.push(std::move(job));
  }
  for (const RequestPtr& request : requests) request->wait();
  return queue.traffic().gb_per_s();
}

// The first write is slower: it takes disk space, and the file system records the new content.
double new_file_gb_per_s(ScratchFile& file, int64_t bytes, IoBackend backend, Pieces& pieces) {
  const auto start = std::chrono::steady_clock::now();
  file.grow(bytes);
  gb_per_s(file, backend, IoSubmission::Kind::write, pieces);
  file.sync();
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
  return static_cast<double>(bytes) / static_cast<double>(time.count());
}

}  // namespace

AlignedBuffer noise(int64_t bytes) {
  AlignedBuffer data = aligned_bytes(bytes);
  uint64_t state = 1;
  for (int64_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    data[i] = static_cast<char>(state >> 56);
  }
  return data;
}

MeasuredDiskBandwidth probe_disk(const std::filesystem::path& directory, int64_t bytes, bool allow_memory,
                                 IoBackend backend, AsyncDirectIoFileSystem& system) {
  ScratchFile file(system, directory, allow_memory);
  Pieces pieces;
  MeasuredDiskBandwidth speed;
  speed.new_file_gb_per_s = new_file_gb_per_s(file, round_up(bytes), backend, pieces);
  speed.how = file.describe(*file.start_io(1, backend));
  speed.write_gb_per_s = gb_per_s(file, backend, IoSubmission::Kind::write, pieces);
  speed.read_gb_per_s = gb_per_s(file, backend, IoSubmission::Kind::read, pieces);
  return speed;
}

}  // namespace memtune::disk
