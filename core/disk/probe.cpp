#include "core/disk/probe.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "core/disk/request_queue.h"
#include "core/disk/scratch_file.h"

namespace memtune::disk {
namespace {

constexpr int64_t kPiece = int64_t{8} << 20;
constexpr int kDepth = 8;

// Memory for all pieces in flight; some disks compress, so it holds noise.
class Noise {
 public:
  Noise() : data_(static_cast<char*>(std::aligned_alloc(kAlignment, kDepth * kPiece))) {
    if (data_ == nullptr) throw std::bad_alloc();
    uint64_t state = 1;
    for (int64_t i = 0; i < kDepth * kPiece; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      data_[i] = static_cast<char>(state >> 56);
    }
  }
  ~Noise() { std::free(data_); }
  Noise(const Noise&) = delete;
  Noise& operator=(const Noise&) = delete;
  char* piece(int64_t number) { return data_ + number % kDepth * kPiece; }

 private:
  char* data_;
};

// Moves the whole file once.
double gb_per_s(const ScratchFile& file, Backend backend, DiskTransfer::Kind kind, Noise& noise) {
  FirstFailure failure;
  RequestQueue queue(file, file.start_io(kDepth, backend), kDepth, failure);
  std::vector<RequestPtr> requests;
  for (int64_t offset = 0; offset < file.bytes(); offset += kPiece) {
    RequestQueue::Job job;
    job.transfer = {kind, offset, noise.piece(offset / kPiece), std::min(kPiece, file.bytes() - offset)};
    requests.push_back(job.request);
    queue.push(std::move(job));
  }
  for (const RequestPtr& request : requests) request->wait();
  return queue.traffic().gb_per_s();
}

}  // namespace

DiskSpeed probe_disk(const std::filesystem::path& directory, int64_t bytes, bool allow_memory, Backend backend,
                     DiskSystem& system) {
  ScratchFile file(system, directory, allow_memory);
  file.grow(round_up(bytes));
  Noise noise;
  gb_per_s(file, backend, DiskTransfer::Kind::write, noise);  // slower: the file system notes what is no longer empty
  DiskSpeed speed;
  speed.how = file.describe(*file.start_io(1, backend));
  speed.write_gb_per_s = gb_per_s(file, backend, DiskTransfer::Kind::write, noise);
  speed.read_gb_per_s = gb_per_s(file, backend, DiskTransfer::Kind::read, noise);
  return speed;
}

}  // namespace memtune::disk
