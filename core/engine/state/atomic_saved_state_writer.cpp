#include "core/engine/state/atomic_saved_state_writer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/file.h"
#include "core/engine/state/rank_parts.h"

namespace memtune::state {
namespace {

using nlohmann::json;

constexpr int64_t kTransferBytes = int64_t{8} << 20;  // one transfer
constexpr int kDepth = 8;                             // transfers in flight
static_assert(safetensors::kDataAlignment % disk::kAlignment == 0);

// Metadata by which torch.distributed.checkpoint finds the part of each tensor in the file: all of it, from the origin
// on, or elements of a row.
std::map<std::string, std::string> sharding(std::span<const safetensors::TensorNameDtypeAndShape> tensors,
                                            const ShardExtents& parts) try {
  json info = json::object();
  for (const safetensors::TensorNameDtypeAndShape& tensor : tensors) {
    std::vector<int64_t> offsets(tensor.shape.size(), 0);
    if (const auto part = parts.find(tensor.name); part != parts.end()) offsets = {part->second.begin};
    info[tensor.name] = {{"saved_offsets", offsets}};
  }
  return {{"format", "pt"}, {"DCP_VERSION", "1.0"}, {"DCP_SHARDING_INFO", info.dump()}};
} catch (const json::exception&) {
  throw UsageError("a tensor's name is no UTF-8");
}

// Fails before anything is on the disk.
safetensors::Header header_of(std::span<const safetensors::TensorNameDtypeAndShape> tensors,
                              const ShardExtents& parts) try {
  return {safetensors::lay_out(tensors), sharding(tensors, parts)};
} catch (const safetensors::MalformedFileError& why) {
  throw UsageError(std::string("the state cannot be written as a safetensors file: ") + why.what());
}

disk::AlignedBuffer aligned(const std::string& bytes) {
  disk::AlignedBuffer copy = disk::aligned_bytes(static_cast<int64_t>(bytes.size()));
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return copy;
}

// Creates an object that starts threads. A failure is reported for `file`.
template <class Make>
auto start(const disk::AtomicOutputFile& file, Make make) try {
  return make();
} catch (const std::system_error& error) {
  std::rethrow_exception(file.failure(error.code().value(), "starting threads for it"));
}

disk::RequestQueue::Job job_of(const disk::RequestPtr& request, int64_t offset, const char* data, int64_t bytes) {
  disk::RequestQueue::Job job;
  // The kernel only reads from it.
  job.transfer = {disk::IoSubmission::Kind::write, offset, const_cast<char*>(data), disk::round_up(bytes)};
  job.request = request;
  return job;
}

}  // namespace

AtomicSavedStateWriter::Place::Place(SavedStatesFolder& folder, int64_t step) : folder_(folder), step_(step) {
  const bool alone = folder.rank().ranks == 1;
  // The other ranks may have begun to write this step.
  if (folder.rank().rank == 0) alone ? folder.remove_remains() : folder.remove_remains(step);
  const std::filesystem::path path = folder.path(step);
  const int made = folder.files().make_folder(path);
  if (made == -EEXIST && !alone && !folder.has(step)) return;  // another rank created it
  if (made < 0) throw_io_error("make the folder", path, -made);
}

AtomicSavedStateWriter::Place::~Place() {
  if (kept_ || folder_.rank().rank > 0) return;
  try {
    folder_.remove(step_);
  } catch (const IoError&) {
    // The cause of the failed save may also prevent the removal. The next save removes it.
  }
}

AtomicSavedStateWriter::Place& AtomicSavedStateWriter::Place::synced() {
  sync_folder(folder_.root(), folder_.files());
  return *this;
}

AtomicSavedStateWriter::AtomicSavedStateWriter(SavedStatesFolder& folder, int64_t step,
                                               std::span<const safetensors::TensorNameDtypeAndShape> tensors,
                                               ShardExtents parts)
    : folder_(folder),
      step_(step),
      parts_(std::move(parts)),
      header_(header_of(tensors, parts_)),
      head_(print_header(header_)),
      aligned_head_(aligned(head_)),
      place_(folder, step),
      file_(place_.synced().path() / data_file(folder.rank().rank), bytes(), folder.files(), folder.disk()),
      checksums_(header_.entries, head_),
      checksum_thread_(start(file_, [&] { return std::make_unique<ChecksumThread>(checksums_); })),
      queue_(start(file_, [&] {
        return std::make_unique<disk::RequestQueue>(file_, file_.start_io(kDepth, disk::IoBackend::automatic), kDepth,
                                                    failure_);
      })) {
  requests_.push_back(std::make_shared<disk::DiskTransferCompletionHandle>());
  queue_->push(job_of(requests_.back(), 0, aligned_head_.get(), static_cast<int64_t>(head_.size())));
}

AtomicSavedStateWriter::~AtomicSavedStateWriter() {
  failure_.note(std::make_exception_ptr(Error("the save was given up")));
}

void AtomicSavedStateWriter::check(const char* data, int64_t bytes) const {
  if (bytes > data_bytes() - given_)
    throw Error("a state is given " + std::to_string(bytes - (data_bytes() - given_)) + " bytes too many");
  const bool last = given_ + bytes == data_bytes();
  if (reinterpret_cast<uintptr_t>(data) % disk::kAlignment != 0 || (!last && bytes % disk::kAlignment != 0))
    throw Error("a portion of a state has to lie at a multiple of " + std::to_string(disk::kAlignment) +
                " and, unless it is the last, to have a multiple of that many bytes");
}

disk::RequestPtr AtomicSavedStateWriter::write(const char* data, int64_t bytes, std::function<void()> before) {
  failure_.rethrow();
  check(data, bytes);
  const int64_t pieces = std::max<int64_t>(1, (bytes + kTransferBytes - 1) / kTransferBytes);
  const disk::RequestPtr request =
      requests_.emplace_back(std::make_shared<disk::DiskTransferCompletionHandle>(static_cast<int>(pieces)));
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const char* from = data + piece * kTransferBytes;
    const int64_t size = std::min(kTransferBytes, bytes - piece * kTransferBytes);
    disk::RequestQueue::Job job = job_of(request, static_cast<int64_t>(head_.size()) + given_, from, size);
    given_ += size;
    job.prepare = [this, from, size, before = std::exchange(before, nullptr)] {
      if (before) before();
      checksum_thread_->push({from, static_cast<size_t>(size)});
    };
    job.check = [this, end = given_] { checksum_thread_->await(end); };
    queue_->push(std::move(job));
  }
  return request;
}

StateManifest AtomicSavedStateWriter::own_manifest() const {
  StateManifest manifest{step_, folder_.settings(), {{data_file(folder_.rank().rank), bytes(), checksums_.file()}}, {}};
  for (size_t i = 0; i < entries().size(); ++i) {
    const safetensors::TensorEntry& entry = entries()[i];
    ManifestTensorEntry tensor{entry.name, entry.dtype, entry.shape, 0, checksums_.tensors().at(i)};
    if (const auto part = parts_.find(entry.name); part != parts_.end()) tensor.part = part->second;
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

void AtomicSavedStateWriter::publish() {
  if (given_ < data_bytes()) throw Error("a state lacks " + std::to_string(data_bytes() - given_) + " bytes");
  for (const disk::RequestPtr& request : requests_) request->wait();
  file_.finish(bytes());
  if (folder_.rank().rank > 0) return publish_part(folder_, own_manifest());
  const StateManifest manifest = merge_rank_manifests(folder_, own_manifest());
  write_file(place_.path() / kManifest, print(manifest), folder_.files());
  place_.keep();
  write_file(folder_.root() / kLatest, folder_name(step_) + "\n", folder_.files());
  remove_parts(folder_, step_);
}

}  // namespace memtune::state
