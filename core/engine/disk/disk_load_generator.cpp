#include "core/engine/disk/disk_load_generator.h"

#include <algorithm>
#include <deque>

#include "core/engine/disk/disk_probe.h"

namespace memtune::disk {
namespace {

constexpr int64_t kMaxPiece = int64_t{8} << 20;

}  // namespace

DiskLoadGenerator::DiskLoadGenerator(const ScratchBlockStoreSettings& settings, int64_t bytes,
                                     AsyncDirectIoFileSystem& system)
    // A block is freed shortly after its request is done. Half of the space is for those blocks.
    : piece_(std::clamp(bytes / 2 / kAlignment * kAlignment, kAlignment, kMaxPiece)),
      blocks_(std::max<int64_t>(1, bytes / 2 / piece_)),
      depth_(std::min<int64_t>(settings.depth, static_cast<int64_t>(blocks_.size()))),
      memory_(noise(depth_ * piece_)),
      store_(settings, system) {
  store_.reserve(2 * piece_ * static_cast<int64_t>(blocks_.size()));
  std::vector<RequestPtr> requests;
  for (size_t i = 0; i < blocks_.size(); ++i) requests.push_back(request(Kind::write));
  for (const RequestPtr& each : requests) each->wait();
}

DiskLoadGenerator::~DiskLoadGenerator() {
  stopped_ = true;
  if (mover_.joinable()) mover_.join();
}

RequestPtr DiskLoadGenerator::request(Kind kind) {
  ScratchFileBlockHandle& block = blocks_[next_ % static_cast<int64_t>(blocks_.size())];
  char* const data = memory_.get() + next_++ % depth_ * piece_;
  if (kind == Kind::read) return store_.read(block, data);
  block = {};
  block = store_.allocate(piece_);
  return store_.write(block, data);
}

void DiskLoadGenerator::start(Kind kind) {
  stopped_ = false;
  moved_bytes_ = 0;
  start_ = std::chrono::steady_clock::now();
  mover_ = std::thread(&DiskLoadGenerator::move, this, kind);
}

void DiskLoadGenerator::move(Kind kind) try {
  std::deque<RequestPtr> flying;
  const auto land = [&] {
    flying.front()->wait();
    flying.pop_front();
    moved_bytes_ += piece_;
  };
  while (!stopped_) {
    if (static_cast<int64_t>(flying.size()) == depth_) land();
    flying.push_back(request(kind));
  }
  while (!flying.empty()) land();
} catch (...) {
  error_ = std::current_exception();
}

double DiskLoadGenerator::stop() {
  stopped_ = true;
  mover_.join();
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start_;
  if (error_) std::rethrow_exception(error_);
  return static_cast<double>(moved_bytes_) / static_cast<double>(time.count());
}

}  // namespace memtune::disk
